/*
 * rte_mbuf primitives on one core, pool with a per-core cache of 256.
 *
 *   alloc_free, alloc_free_bulk32   one mbuf; 32 by the bulk calls
 *   refcnt_from_1, refcnt_from_2    +1 then -1 (DPDK's +1 from 1 is not atomic, the rest is)
 *   clone_free                      clone of a one-segment mbuf, free of the clone
 *   attach_detach                   of a second mbuf that exists already
 *   prefree                         rte_pktmbuf_prefree_seg of an unshared mbuf
 *
 * usage: mbuf <EAL options> -- [--runs N]
 */
#include <rte_mbuf.h>

#include "bench.h"

#define ITERATIONS 1000000
#define BULK 32

static struct rte_mempool *g_pool;

static struct rte_mbuf *need(struct rte_mbuf *m)
{
	if (unlikely(m == NULL))
		rte_exit(1, "mbuf pool ran empty\n");
	return m;
}

/* Times BODY, run COUNT times, between one PREPARE and one FINISH; each iteration counts PER mbufs. */
#define MEASURE(OP, COUNT, PER, PREPARE, BODY, FINISH)                                              \
	static __rte_noinline uint64_t run_##OP(void)                                               \
	{                                                                                           \
		struct rte_mbuf *a = NULL, *b = NULL, *bulk[BULK];                                  \
		uint64_t t;                                                                         \
		(void)a; (void)b; (void)bulk;                                                       \
		PREPARE;                                                                            \
		t = rte_rdtsc_precise();                                                            \
		for (unsigned i = 0; i < (COUNT); i++) { BODY; }                                    \
		t = rte_rdtsc_precise() - t;                                                        \
		FINISH;                                                                             \
		return t;                                                                           \
	}                                                                                           \
	static const double units_##OP = (double)(COUNT) * (PER);

MEASURE(alloc_free, ITERATIONS, 1, , a = rte_pktmbuf_alloc(g_pool); OBSERVE(a); rte_pktmbuf_free(a), )
MEASURE(alloc_free_bulk32, ITERATIONS / 16, BULK, ,
	if (unlikely(rte_pktmbuf_alloc_bulk(g_pool, bulk, BULK) != 0)) rte_exit(1, "mbuf pool ran empty\n");
	OBSERVE(bulk);
	rte_pktmbuf_free_bulk(bulk, BULK), )
MEASURE(refcnt_from_1, ITERATIONS, 1, a = need(rte_pktmbuf_alloc(g_pool)),
	rte_mbuf_refcnt_update(a, 1); OBSERVE(a); rte_mbuf_refcnt_update(a, -1); OBSERVE(a), rte_pktmbuf_free(a))
MEASURE(refcnt_from_2, ITERATIONS, 1, a = need(rte_pktmbuf_alloc(g_pool)); rte_mbuf_refcnt_set(a, 2),
	rte_mbuf_refcnt_update(a, 1); OBSERVE(a); rte_mbuf_refcnt_update(a, -1); OBSERVE(a),
	rte_mbuf_refcnt_set(a, 1); rte_pktmbuf_free(a))
MEASURE(clone_free, ITERATIONS, 1, a = need(rte_pktmbuf_alloc(g_pool)); rte_pktmbuf_append(a, 64),
	b = rte_pktmbuf_clone(a, g_pool); OBSERVE(b); rte_pktmbuf_free(b), rte_pktmbuf_free(a))
MEASURE(attach_detach, ITERATIONS, 1,
	a = need(rte_pktmbuf_alloc(g_pool)); rte_pktmbuf_append(a, 64); b = need(rte_pktmbuf_alloc(g_pool)),
	rte_pktmbuf_attach(b, a); OBSERVE(b); rte_pktmbuf_detach(b); OBSERVE(b),
	rte_pktmbuf_free(a); rte_pktmbuf_free(b))
MEASURE(prefree, ITERATIONS, 1, a = need(rte_pktmbuf_alloc(g_pool)),
	b = rte_pktmbuf_prefree_seg(a); OBSERVE(b), rte_pktmbuf_free(a))

int main(int argc, char **argv)
{
	const struct {
		const char *op;
		uint64_t (*run)(void);
		double units;
	} ops[] = {
#define OP(NAME) { #NAME, run_##NAME, units_##NAME }
		OP(alloc_free), OP(alloc_free_bulk32), OP(refcnt_from_1), OP(refcnt_from_2),
		OP(clone_free), OP(attach_detach), OP(prefree),
	};

	if (bench_init(&argc, &argv) != 0)
		rte_exit(2, "unknown word %s (none is known)\n", argv[0]);
	g_pool = rte_pktmbuf_pool_create("bench", 8191, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (g_pool == NULL)
		rte_exit(1, "rte_pktmbuf_pool_create: %s\n", rte_strerror(rte_errno));
	for (unsigned k = 0; k < RTE_DIM(ops); k++) {
		struct samples s = { .n = 0 };

		ops[k].run();
		for (unsigned i = 0; i < g_runs; i++)
			add_sample(&s, (double)ops[k].run() / ops[k].units);
		emit(&s, "cycles_per_mbuf", "\"bench\":\"mbuf\",\"op\":\"%s\"", ops[k].op);
	}
	if (rte_mempool_avail_count(g_pool) != 8191)
		rte_exit(1, "%u of 8191 mbufs came back\n", rte_mempool_avail_count(g_pool));
	rte_eal_cleanup();
	return 0;
}
