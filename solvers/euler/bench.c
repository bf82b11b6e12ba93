/* Two-dimensional Euler equations of an ideal gas on a periodic box, written by hand: MUSCL with van
 * Leer's slopes, HLLC with Einfeldt's speeds, two stages of a strong-stability-preserving
 * Runge-Kutta scheme. The flux of each face is computed once: along y for a row of faces, along x
 * for a row that is kept for the next row of cells.
 *
 * Conserved arrays u have the shape (4, nx, ny): density, momentum, energy. Primitive arrays w,
 * density, velocities, pressure, have two layers around: (4, nx + 4, ny + 4).
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#define LAYERS 2

typedef struct {
  double mass, along, across, energy;
} Flux;

static inline double half_slope(double a, double b) {
  const double both = a * b;
  return 0.5 * (both > 0.0 ? 2.0 * both / (both > 0.0 ? a + b : 1.0) : 0.0);
}

static inline double least(double a, double b) { return a < b ? a : b; }
static inline double most(double a, double b) { return a > b ? a : b; }

/* The flux between the cells p[0] and p[s], from the cells p[-s] to p[2 s]. */
static inline __attribute__((always_inline)) Flux face(const double *restrict rho, const double *restrict u,
                        const double *restrict v, const double *restrict p, ptrdiff_t s,
                        double gamma) {
#define SIDES(q, l, r)                                     \
  const double q##_a = q[0] - q[-s], q##_b = q[s] - q[0], q##_c = q[2 * s] - q[s]; \
  const double l = q[0] + half_slope(q##_a, q##_b), r = q[s] - half_slope(q##_b, q##_c);
  SIDES(rho, rl, rr)
  SIDES(u, ul, ur)
  SIDES(v, vl, vr)
  SIDES(p, pl, pr)
  const double cl = sqrt(gamma * pl / rl), cr = sqrt(gamma * pr / rr);
  const double root_l = sqrt(rl), root_r = sqrt(rr), share = 1.0 / (root_l + root_r);
  const double mean = (root_l * ul + root_r * ur) * share, jump = (ur - ul) * share;
  const double width = sqrt((root_l * (cl * cl) + root_r * (cr * cr)) * share +
                            0.5 * (root_l * root_r) * (jump * jump));
  const double slow = least(ul - cl, mean - width), fast = most(ur + cr, mean + width);
  const double mass_l = rl * (slow - ul), mass_r = rr * (fast - ur);
  const double contact = ((pr - pl) + (mass_l * ul - mass_r * ur)) / (mass_l - mass_r);
  const int forth = contact >= 0.0, single = (slow >= 0.0) | (fast <= 0.0);
  const double r0 = forth ? rl : rr, u0 = forth ? ul : ur, v0 = forth ? vl : vr;
  const double p0 = forth ? pl : pr, speed = forth ? slow : fast, mass = forth ? mass_l : mass_r;
  const double rest = 1.0 / (speed - contact), p_star = p0 + mass * (contact - u0);
  const double e0 = p0 * (1.0 / (gamma - 1.0)) + 0.5 * r0 * (u0 * u0 + v0 * v0);
  const double e_star = ((speed - u0) * e0 - p0 * u0 + p_star * contact) * rest;
  const double through = single ? u0 : contact, pressure = single ? p0 : p_star;
  const double carried = through * (single ? r0 : mass * rest);
  return (Flux){carried, carried * through + pressure, carried * v0,
                through * ((single ? e0 : e_star) + pressure)};
}

/* Fluxes through `count` faces in a row, each between a cell of w and the one s further; n and t
 * are the components of velocity along and across the normal. */
static void faces(const double *restrict w, ptrdiff_t plane, ptrdiff_t s, int n, int t,
                  ptrdiff_t count, double gamma, double *restrict f) {
  const double *restrict rho = w, *restrict u = w + n * plane, *restrict v = w + t * plane;
  const double *restrict p = w + 3 * plane;
  double *restrict f0 = f, *restrict fn = f + n * count, *restrict ft = f + t * count;
  double *restrict f3 = f + 3 * count;
#pragma GCC ivdep
  for (ptrdiff_t j = 0; j < count; j++) {
    const Flux one = face(rho + j, u + j, v + j, p + j, s, gamma);
    f0[j] = one.mass, fn[j] = one.along, ft[j] = one.across, f3[j] = one.energy;
  }
}

static void fill_layers(double *w, ptrdiff_t nx, ptrdiff_t ny) {
  const ptrdiff_t row = ny + 2 * LAYERS, plane = (nx + 2 * LAYERS) * row;
  for (int c = 0; c < 4; c++) {
    double *q = w + c * plane;
    memcpy(q, q + nx * row, LAYERS * row * sizeof *q);
    memcpy(q + (nx + LAYERS) * row, q + LAYERS * row, LAYERS * row * sizeof *q);
    for (ptrdiff_t i = 0; i < nx + 2 * LAYERS; i++)
      for (ptrdiff_t k = 0; k < LAYERS; k++) {
        q[i * row + k] = q[i * row + ny + k];
        q[i * row + ny + LAYERS + k] = q[i * row + LAYERS + k];
      }
  }
}

/* A component of e + keep (start - e), e = now + dt rate, in a row of cells. */
static void advance(const double *restrict low, const double *restrict high,
                    const double *restrict side, const double *now, const double *start,
                    double *new, ptrdiff_t ny, double dt, double keep, double rx, double ry) {
#pragma GCC ivdep
  for (ptrdiff_t j = 0; j < ny; j++) {
    const double e = now[j] + dt * -(rx * (high[j] - low[j]) + ry * (side[j + 1] - side[j]));
    new[j] = e + keep * (start[j] - e);
  }
}

/* The primitive variables in a row of cells; the largest sum of (|u| + c) / h. */
static double derive(const double *u, ptrdiff_t cells, double *restrict w, ptrdiff_t plane,
                     ptrdiff_t ny, double gamma, double rx, double ry) {
  double fastest = 0.0;
#pragma omp simd reduction(max : fastest)
  for (ptrdiff_t j = 0; j < ny; j++) {
    const double rho = u[j], mx = u[cells + j], my = u[2 * cells + j], share = 1.0 / rho;
    const double vx = mx * share, vy = my * share;
    const double p = (gamma - 1.0) * (u[3 * cells + j] - 0.5 * (mx * vx + my * vy));
    const double c = sqrt(gamma * p / rho);
    const double rate = (fabs(vx) + c) * rx + (fabs(vy) + c) * ry;
    w[j] = rho, w[plane + j] = vx, w[2 * plane + j] = vy, w[3 * plane + j] = p;
    fastest = most(fastest, rate);
  }
  return fastest;
}

/* A stage `new = e + keep (start - e)`, e = now + dt rate(w), and the primitive variables of the
 * new state. `rows` has room for 12 (ny + 1) values. Returns the largest sum of (|u| + c) / h. */
double stage(double *restrict w, const double *now, const double *start, double *new,
             double *restrict w_new, double *restrict rows, ptrdiff_t nx, ptrdiff_t ny, double dt,
             double keep, double gamma, double rx, double ry) {
  const ptrdiff_t row = ny + 2 * LAYERS, plane = (nx + 2 * LAYERS) * row, cells = nx * ny;
  double *low = rows, *high = rows + 4 * (ny + 1), *side = rows + 8 * (ny + 1);
  double fastest = 0.0;
  fill_layers(w, nx, ny);
  faces(w + (LAYERS - 1) * row + LAYERS, plane, row, 1, 2, ny, gamma, low);
  for (ptrdiff_t i = 0; i < nx; i++) {
    const double *first = w + (i + LAYERS) * row + LAYERS;
    faces(first, plane, row, 1, 2, ny, gamma, high);
    faces(first - 1, plane, 1, 2, 1, ny + 1, gamma, side);
    for (int c = 0; c < 4; c++) {
      const ptrdiff_t here = c * cells + i * ny;
      advance(low + c * ny, high + c * ny, side + c * (ny + 1), now + here, start + here,
              new + here, ny, dt, keep, rx, ry);
    }
    double *q = w_new + (i + LAYERS) * row + LAYERS;
    fastest = most(fastest, derive(new + i * ny, cells, q, plane, ny, gamma, rx, ry));
    double *swapped = low;
    low = high, high = swapped;
  }
  return fastest;
}
