/* The loops written by hand that the package is measured beside. Arrays are contiguous; n0, n1, n2
   count cells with the layers around them, which are filled periodically first. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef ptrdiff_t I;

/* Fills w layers at all sides of elements of `size` bytes. */
static void fill_layers(char *u, I n0, I n1, I n2, I w, I size) {
  const I row = n2 * size, plane = n1 * row, line = w * size;
  memcpy(u, u + (n0 - 2 * w) * plane, w * plane);
  memcpy(u + (n0 - w) * plane, u + w * plane, w * plane);
  for (I i = 0; i < n0; i++) {
    char *p = u + i * plane;
    memcpy(p, p + (n1 - 2 * w) * row, w * row);
    memcpy(p + (n1 - w) * row, p + w * row, w * row);
    for (I j = 0; j < n1; j++, p += row) {
      memcpy(p, p + row - 2 * line, line);
      memcpy(p + row - line, p + line, line);
    }
  }
}

/* One explicit step of the heat equation, 7 points, from u into v. */
void heat_step(double *restrict u, double *restrict v, I n0, I n1, I n2, double r) {
  const I row = n2, plane = n1 * n2;
  fill_layers((char *)u, n0, n1, n2, 1, sizeof *u);
  for (I i = 1; i < n0 - 1; i++)
    for (I j = 1; j < n1 - 1; j++) {
      const double *restrict p = u + i * plane + j * row;
      double *restrict q = v + i * plane + j * row;
#pragma GCC ivdep
      for (I k = 1; k < n2 - 1; k++)
        q[k] = p[k] + r * (p[k + plane] + p[k - plane] + p[k + row] + p[k - row]
                           + p[k + 1] + p[k - 1] - 6 * p[k]);
    }
}

/* One step of the acoustic wave equation, order 8 in space (25 points) and 2 in time: `old` gets the
   new pressure; m is (speed * dt / spacing)^2 of each cell; c are the weights of the second
   derivative at distances 0 to 4, the first one for the three axes together. */
void wave_sweep(float *restrict u, float *restrict old, const float *restrict m, I n0, I n1, I n2,
                const float *c) {
  const I row = n2, plane = n1 * n2;
  const float c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], c4 = c[4];
#define AT(d) ((p[k + d * plane] + p[k - d * plane]) + (p[k + d * row] + p[k - d * row]) \
               + (p[k + d] + p[k - d]))
  for (I i = 4; i < n0 - 4; i++)
    for (I j = 4; j < n1 - 4; j++) {
      const float *restrict p = u + i * plane + j * row;
      const float *restrict s = m + i * plane + j * row;
      float *restrict q = old + i * plane + j * row;
#pragma GCC ivdep
      for (I k = 4; k < n2 - 4; k++)
        q[k] = 2.0f * p[k] - q[k]
               + s[k] * (c0 * p[k] + c1 * AT(1) + c2 * AT(2) + c3 * AT(3) + c4 * AT(4));
    }
#undef AT
}

void wave_step(float *restrict u, float *restrict old, const float *restrict m, I n0, I n1, I n2,
               const float *c) {
  fill_layers((char *)u, n0, n1, n2, 4, sizeof *u);
  wave_sweep(u, old, m, n0, n1, n2, c);
}

void copy_values(double *restrict target, const double *restrict source, I n) {
  memcpy(target, source, n * sizeof *target);
}

double sum_values(const double *restrict a, I n) {
  double sum = 0;
  for (I i = 0; i < n; i++) sum += a[i];
  return sum;
}

double sum_products(const double *restrict a, const double *restrict b, I n) {
  double sum = 0;
  for (I i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

double largest(const double *restrict a, I n) {
  double most = a[0];
  for (I i = 1; i < n; i++) most = a[i] > most ? a[i] : most;
  return most;
}

/* Faces along axis 0 of `count` fields of n0 x n1 x n2 cells with a layer of one cell, into one
   message; the other two axes are filled periodically in the same pass. */
void pack_fields(double *const *fields, I count, I n0, I n1, I n2, I plane, I row, double *message) {
  for (I f = 0; f < count; f++) {
    double *u = fields[f];
    for (I side = 0; side < 2; side++)
      for (I j = 1; j <= n1; j++, message += n2)
        memcpy(message, u + (side ? n0 : 1) * plane + j * row + 1, n2 * sizeof *u);
    for (I i = 1; i <= n0; i++) {
      double *p = u + i * plane;
      memcpy(p + 1, p + n1 * row + 1, n2 * sizeof *u);
      memcpy(p + (n1 + 1) * row + 1, p + row + 1, n2 * sizeof *u);
      for (I j = 1; j <= n1; j++) {
        double *q = p + j * row;
        q[0] = q[n2];
        q[n2 + 1] = q[1];
      }
    }
  }
}

/* What a neighbour on both sides sent: its first face lies above, its last one below. */
void unpack_fields(double *const *fields, I count, I n0, I n1, I n2, I plane, I row,
                   const double *message) {
  for (I f = 0; f < count; f++)
    for (I side = 0; side < 2; side++)
      for (I j = 1; j <= n1; j++, message += n2)
        memcpy(fields[f] + (side ? 0 : n0 + 1) * plane + j * row + 1, message,
               n2 * sizeof **fields);
}
