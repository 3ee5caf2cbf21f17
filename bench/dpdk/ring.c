/*
 * rte_ring in every sync mode: cycles per element for enqueue + dequeue.
 *
 * One core: an enqueue of `bulk` followed by a dequeue of `bulk`. Two cores: the main lcore enqueues,
 * the worker dequeues; the figure is the longer of both sides' times. A two-core run counts for the
 * state (near or far) that the probe saw before and after it, and not at all when it changed between.
 *
 * usage: ring <EAL options> -- [--runs N] [one] [two]
 */
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include "bench.h"

#define RING_ENTRIES 4096

enum mode { SPSC, MPMC, RTS, HTS };

static const char *const mode_name[] = { "spsc", "mpmc", "rts", "hts" };
static const unsigned mode_flags[] = {
	[SPSC] = RING_F_SP_ENQ | RING_F_SC_DEQ,
	[MPMC] = 0,
	[RTS] = RING_F_MP_RTS_ENQ | RING_F_MC_RTS_DEQ,
	[HTS] = RING_F_MP_HTS_ENQ | RING_F_MC_HTS_DEQ,
};

/* `mode` and `esize` are constants at every call, so each loop holds just the one algorithm. */
static __rte_always_inline unsigned
enqueue(enum mode mode, struct rte_ring *r, const void *tbl, unsigned esize, unsigned n)
{
	switch (mode) {
	case SPSC: return rte_ring_sp_enqueue_bulk_elem(r, tbl, esize, n, NULL);
	case MPMC: return rte_ring_mp_enqueue_bulk_elem(r, tbl, esize, n, NULL);
	case RTS: return rte_ring_mp_rts_enqueue_bulk_elem(r, tbl, esize, n, NULL);
	case HTS: return rte_ring_mp_hts_enqueue_bulk_elem(r, tbl, esize, n, NULL);
	}
	return 0;
}

static __rte_always_inline unsigned
dequeue(enum mode mode, struct rte_ring *r, void *tbl, unsigned esize, unsigned n)
{
	switch (mode) {
	case SPSC: return rte_ring_sc_dequeue_bulk_elem(r, tbl, esize, n, NULL);
	case MPMC: return rte_ring_mc_dequeue_bulk_elem(r, tbl, esize, n, NULL);
	case RTS: return rte_ring_mc_rts_dequeue_bulk_elem(r, tbl, esize, n, NULL);
	case HTS: return rte_ring_mc_hts_dequeue_bulk_elem(r, tbl, esize, n, NULL);
	}
	return 0;
}

static __rte_always_inline uint64_t
loop_both(enum mode mode, unsigned esize, struct rte_ring *r, unsigned n, unsigned iterations)
{
	uint64_t in[MAX_BULK * 2] __rte_cache_aligned = { 0 }, out[MAX_BULK * 2] __rte_cache_aligned;
	uint64_t t = rte_rdtsc_precise();

	for (unsigned i = 0; i < iterations; i++) {
		OBSERVE(in);
		enqueue(mode, r, in, esize, n);
		dequeue(mode, r, out, esize, n);
		OBSERVE(out);
	}
	return rte_rdtsc_precise() - t;
}

static __rte_always_inline uint64_t
loop_produce(enum mode mode, unsigned esize, struct rte_ring *r, unsigned n, unsigned iterations)
{
	uint64_t in[MAX_BULK * 2] __rte_cache_aligned = { 0 };
	uint64_t t = rte_rdtsc_precise();

	for (unsigned i = 0; i < iterations; i++) {
		OBSERVE(in);
		while (enqueue(mode, r, in, esize, n) == 0)
			rte_pause();
	}
	return rte_rdtsc_precise() - t;
}

static __rte_always_inline uint64_t
loop_consume(enum mode mode, unsigned esize, struct rte_ring *r, unsigned n, unsigned iterations)
{
	uint64_t out[MAX_BULK * 2] __rte_cache_aligned;
	uint64_t t = rte_rdtsc_precise();

	for (unsigned i = 0; i < iterations; i++) {
		while (dequeue(mode, r, out, esize, n) == 0)
			rte_pause();
		OBSERVE(out);
	}
	return rte_rdtsc_precise() - t;
}

typedef uint64_t (*loop_fn)(struct rte_ring *, unsigned, unsigned);

/* One copy of each loop per mode and element size, each a function of its own. */
#define LOOPS(MODE, ESIZE)                                                                          \
	static __rte_noinline uint64_t both_##MODE##_##ESIZE(struct rte_ring *r, unsigned n, unsigned i)    \
	{ return loop_both(MODE, ESIZE, r, n, i); }                                                 \
	static __rte_noinline uint64_t produce_##MODE##_##ESIZE(struct rte_ring *r, unsigned n, unsigned i) \
	{ return loop_produce(MODE, ESIZE, r, n, i); }                                              \
	static __rte_noinline uint64_t consume_##MODE##_##ESIZE(struct rte_ring *r, unsigned n, unsigned i) \
	{ return loop_consume(MODE, ESIZE, r, n, i); }

LOOPS(SPSC, 8) LOOPS(MPMC, 8) LOOPS(RTS, 8) LOOPS(HTS, 8)
LOOPS(SPSC, 16) LOOPS(MPMC, 16) LOOPS(RTS, 16) LOOPS(HTS, 16)

static const struct variant {
	enum mode mode;
	unsigned esize;
	loop_fn both, produce, consume;
} variants[] = {
#define VARIANT(M, E) { M, E, both_##M##_##E, produce_##M##_##E, consume_##M##_##E }
	VARIANT(SPSC, 8), VARIANT(MPMC, 8), VARIANT(RTS, 8), VARIANT(HTS, 8),
	VARIANT(SPSC, 16), VARIANT(MPMC, 16), VARIANT(RTS, 16), VARIANT(HTS, 16),
};

static const unsigned bulks[] = { 1, 8, 32, 128 };

static struct rte_ring *make_ring(const struct variant *v)
{
	struct rte_ring *r = rte_ring_create_elem("bench", v->esize, RING_ENTRIES, SOCKET_ID_ANY, mode_flags[v->mode]);

	if (r == NULL)
		rte_exit(1, "rte_ring_create_elem: %s\n", rte_strerror(rte_errno));
	return r;
}

static void one_core(const struct variant *v, unsigned n)
{
	unsigned iterations = 4000000 / (n + 3);
	struct rte_ring *r = make_ring(v);
	struct samples s = { .n = 0 };

	v->both(r, n, iterations / 8);
	for (unsigned i = 0; i < g_runs; i++)
		add_sample(&s, (double)v->both(r, n, iterations) / iterations / n);
	rte_ring_free(r);
	emit(&s, "cycles_per_element",
	     "\"bench\":\"ring\",\"mode\":\"%s\",\"cores\":1,\"pair\":null,\"bulk\":%u,\"elem_bytes\":%u",
	     mode_name[v->mode], n, v->esize);
}

static struct job {
	loop_fn loop;
	struct rte_ring *ring;
	unsigned n, iterations;
	uint64_t cycles;
} g_job;
static uint32_t g_gate;

/* Both sides leave this together. */
static void meet(void)
{
	__atomic_add_fetch(&g_gate, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&g_gate, __ATOMIC_ACQUIRE) != 2)
		rte_pause();
}

static int consumer(void *arg)
{
	struct job *j = arg;

	meet();
	j->cycles = j->loop(j->ring, j->n, j->iterations);
	return 0;
}

static void two_cores(const struct variant *v, unsigned n, unsigned worker)
{
	unsigned iterations = 1500000 / (n + 8);
	struct samples s[2] = { { .n = 0 }, { .n = 0 } };

	for (unsigned i = 0; i < g_runs; i++) {
		struct rte_ring *r = make_ring(v);
		bool before = probe_is_far(worker), after;
		uint64_t mine;

		g_job = (struct job){ v->consume, r, n, iterations, 0 };
		g_gate = 0;
		rte_eal_remote_launch(consumer, &g_job, worker);
		meet();
		mine = v->produce(r, n, iterations);
		rte_eal_wait_lcore(worker);
		after = probe_is_far(worker);
		rte_ring_free(r);
		if (before == after)
			add_sample(&s[before], (double)RTE_MAX(mine, g_job.cycles) / iterations / n);
	}
	for (unsigned far = 0; far < 2; far++)
		emit(&s[far], "cycles_per_element",
		     "\"bench\":\"ring\",\"mode\":\"%s\",\"cores\":2,\"pair\":\"%s\",\"bulk\":%u,\"elem_bytes\":%u",
		     mode_name[v->mode], far ? "far" : "near", n, v->esize);
}

int main(int argc, char **argv)
{
	bool one = false, two = false;
	unsigned worker;

	bench_init(&argc, &argv);
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "one") == 0)
			one = true;
		else if (strcmp(argv[i], "two") == 0)
			two = true;
		else
			rte_exit(2, "unknown word %s (known: one, two)\n", argv[i]);
	}
	if (!one && !two)
		one = two = true;
	worker = rte_get_next_lcore(-1, 1, 0);
	if (two && worker >= RTE_MAX_LCORE)
		rte_exit(2, "two cores asked for, but EAL has one lcore (-l A,B)\n");
	for (unsigned k = 0; k < RTE_DIM(variants); k++)
		for (unsigned j = 0; j < RTE_DIM(bulks); j++) {
			if (one)
				one_core(&variants[k], bulks[j]);
			if (two)
				two_cores(&variants[k], bulks[j], worker);
		}
	rte_eal_cleanup();
	return 0;
}
