/*
 * rte_mempool, get + put of `bulk` objects on one core, with a per-core cache of 256 and without.
 * 8191 objects of 64 bytes in the default back end (a multi-producer, multi-consumer ring).
 *
 * usage: mempool <EAL options> -- [--runs N]
 */
#include <rte_mempool.h>

#include "bench.h"

static __rte_noinline uint64_t get_put(struct rte_mempool *mp, unsigned n, unsigned iterations)
{
	void *obj[MAX_BULK];
	uint64_t t = rte_rdtsc_precise();

	for (unsigned i = 0; i < iterations; i++) {
		if (unlikely(rte_mempool_get_bulk(mp, obj, n) != 0))
			rte_exit(1, "mempool ran empty\n");
		OBSERVE(obj);
		rte_mempool_put_bulk(mp, obj, n);
	}
	return rte_rdtsc_precise() - t;
}

int main(int argc, char **argv)
{
	static const unsigned caches[] = { 256, 0 }, bulks[] = { 1, 4, 32 };

	if (bench_init(&argc, &argv) != 0)
		rte_exit(2, "unknown word %s (none is known)\n", argv[0]);
	for (unsigned c = 0; c < RTE_DIM(caches); c++) {
		struct rte_mempool *mp = rte_mempool_create("bench", 8191, 64, caches[c], 0, NULL, NULL, NULL, NULL,
							    SOCKET_ID_ANY, 0);
		if (mp == NULL)
			rte_exit(1, "rte_mempool_create: %s\n", rte_strerror(rte_errno));
		for (unsigned j = 0; j < RTE_DIM(bulks); j++) {
			unsigned n = bulks[j], iterations = 4000000 / (n + 7);
			struct samples s = { .n = 0 };

			get_put(mp, n, iterations / 8);
			for (unsigned i = 0; i < g_runs; i++)
				add_sample(&s, (double)get_put(mp, n, iterations) / iterations / n);
			emit(&s, "cycles_per_object", "\"bench\":\"mempool\",\"cache\":%u,\"bulk\":%u", caches[c], n);
		}
		rte_mempool_free(mp);
	}
	rte_eal_cleanup();
	return 0;
}
