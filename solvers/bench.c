/* Steps written by hand, on cubes of n cells with w layers around, filled periodically first. */
#include <stddef.h>
#include <string.h>
typedef ptrdiff_t I;

static void fill(double *u, I n, I w) {
  const I m = n + 2 * w, plane = m * m;
  memcpy(u, u + n * plane, w * plane * sizeof *u);
  memcpy(u + (n + w) * plane, u + w * plane, w * plane * sizeof *u);
  for (I i = 0; i < m; i++) {
    double *p = u + i * plane;
    memcpy(p, p + n * m, w * m * sizeof *p);
    memcpy(p + (n + w) * m, p + w * m, w * m * sizeof *p);
    for (I j = 0; j < m; j++) {
      memcpy(p + j * m, p + j * m + n, w * sizeof *p);
      memcpy(p + j * m + n + w, p + j * m + w, w * sizeof *p);
    }
  }
}

/* new = u + c (sum of six neighbours - 6 u) */
void diffusion_step(double *restrict u, double *restrict new, I n, double c) {
  const I m = n + 2, plane = m * m;
  fill(u, n, 1);
  for (I i = 1; i <= n; i++)
    for (I j = 1; j <= n; j++) {
      const double *restrict p = u + i * plane + j * m;
      double *restrict q = new + i * plane + j * m;
#pragma GCC ivdep
      for (I k = 1; k <= n; k++)
        q[k] = p[k] + c * (p[k + plane] + p[k - plane] + p[k + m] + p[k - m]
                           + p[k + 1] + p[k - 1] - 6 * p[k]);
    }
}

/* old = 2 p - old + c (second differences of order 8 along three axes) */
void wave_step(double *restrict u, double *restrict old, I n, double c) {
  const I m = n + 8, plane = m * m;
  const double w[5] = {-3 * 205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
  fill(u, n, 4);
#define AT(d) (w[d] * (p[k + d * plane] + p[k - d * plane] + p[k + d * m] + p[k - d * m] \
                       + p[k + d] + p[k - d]))
  for (I i = 4; i < n + 4; i++)
    for (I j = 4; j < n + 4; j++) {
      const double *restrict p = u + i * plane + j * m;
      double *restrict q = old + i * plane + j * m;
#pragma GCC ivdep
      for (I k = 4; k < n + 4; k++)
        q[k] = 2 * p[k] - q[k] + c * (w[0] * p[k] + AT(1) + AT(2) + AT(3) + AT(4));
    }
}
