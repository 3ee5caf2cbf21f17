/*
 * What the three DPDK programs share: run counts, the core-pair probe, and JSON lines.
 *
 * Every program prints one JSON object a line on standard output. The fields are those that
 * `linerate perf --json` uses for the same measurement, so that rows join by key; "peer" and
 * "runs" come on top. Cycles are TSC cycles.
 */
#ifndef LINERATE_BENCH_H
#define LINERATE_BENCH_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_debug.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#define MAX_RUNS 64
#define MAX_BULK 256

/* Makes the compiler believe that `p` is read and memory changes here, at no cost. */
#define OBSERVE(p) asm volatile("" : : "r"(p) : "memory")

/* Above this round trip of a cache line two cores are called far: neighbours in one L3 need
 * 70-130 ns, cores in different L3 domains about 400 ns. */
#define NEAR_LIMIT_NS 200.0

static unsigned g_runs = 11;

struct samples {
	double v[MAX_RUNS];
	unsigned n;
};

static inline void add_sample(struct samples *s, double v)
{
	if (s->n < MAX_RUNS)
		s->v[s->n++] = v;
}

static inline int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Prints one row: `fields` is the key part of the object, without braces. */
__attribute__((format(printf, 3, 4)))
static void emit(struct samples *s, const char *unit, const char *fields, ...)
{
	va_list ap;

	if (s->n == 0)
		return;
	qsort(s->v, s->n, sizeof(s->v[0]), cmp_double);
	printf("{\"peer\":\"dpdk\",");
	va_start(ap, fields);
	vprintf(fields, ap);
	va_end(ap);
	printf(",\"unit\":\"%s\",\"min\":%.4f,\"median\":%.4f,\"max\":%.4f,\"runs\":%u}\n", unit, s->v[0],
	       s->v[s->n / 2], s->v[s->n - 1], s->n);
	fflush(stdout);
}

/* EAL arguments, then after `--`: `--runs N` and words, which are left in argv. Returns how many. */
static int bench_init(int *argc, char ***argv)
{
	int used = rte_eal_init(*argc, *argv), words = 0;
	char **arg;

	if (used < 0)
		rte_exit(2, "rte_eal_init: %s\n", rte_strerror(rte_errno));
	arg = *argv + used + 1;
	for (int i = used + 1; i < *argc; i++) {
		char *a = (*argv)[i];

		if (strcmp(a, "--runs") == 0 && i + 1 < *argc) {
			g_runs = (unsigned)strtoul((*argv)[++i], NULL, 10);
			if (g_runs == 0 || g_runs > MAX_RUNS)
				rte_exit(2, "--runs takes 1 to %u\n", MAX_RUNS);
		} else if (strncmp(a, "--", 2) == 0) {
			rte_exit(2, "unknown option %s (known: --runs N)\n", a);
		} else {
			arg[words++] = a;
		}
	}
	*argc = words;
	*argv = arg;
	return words;
}

/* ---------------------------------------------------------------- the state of the core pair */

#define PROBE_ROUNDS 2000

static struct {
	volatile uint32_t token;
} g_probe __rte_cache_aligned;

static int probe_echo(void *unused)
{
	(void)unused;
	for (uint32_t i = 0; i < PROBE_ROUNDS; i++) {
		while (__atomic_load_n(&g_probe.token, __ATOMIC_ACQUIRE) != 2 * i + 1)
			;
		__atomic_store_n(&g_probe.token, 2 * i + 2, __ATOMIC_RELEASE);
	}
	return 0;
}

/* Median round trip of a cache line between this lcore and `worker`; true when that is far. */
static inline bool probe_is_far(unsigned worker)
{
	static double trip[PROBE_ROUNDS];

	g_probe.token = 0;
	rte_eal_remote_launch(probe_echo, NULL, worker);
	for (uint32_t i = 0; i < PROBE_ROUNDS; i++) {
		uint64_t t = rte_rdtsc();

		__atomic_store_n(&g_probe.token, 2 * i + 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&g_probe.token, __ATOMIC_ACQUIRE) != 2 * i + 2)
			;
		trip[i] = (double)(rte_rdtsc() - t);
	}
	rte_eal_wait_lcore(worker);
	qsort(trip, PROBE_ROUNDS, sizeof(trip[0]), cmp_double);
	return trip[PROBE_ROUNDS / 2] * 1e9 / (double)rte_get_tsc_hz() > NEAR_LIMIT_NS;
}

#endif
