// The formats of statistics that are read, each in a file of its own name. This list makes them
// known.
#pragma once

#include "libshard/import/import.h"

namespace moepack {

// The first that recognises a file reads it, so formats with a magic or a name of their own come
// before those recognised by their keys. Scores name the format that they were read from, so they
// come first.
#define SHARD_IMPORTERS(ROW)                            \
  ROW(kScoresImporter)      /* scores_file.cc */        \
  ROW(kMoepackImporter)     /* moepack_statistics.cc */ \
  ROW(kImatrixImporter)     /* imatrix_counts.cc */     \
  ROW(kReapTensorsImporter) /* reap_tensors.cc */       \
  ROW(kHotCacheImporter)    /* hot_cache.cc */          \
  ROW(kSglangImporter)      /* sglang_counts.cc */      \
  ROW(kReapImporter)        /* reap_scores.cc */        \
  ROW(kVllmAscendImporter)  /* vllm_ascend.cc */        \
  ROW(kTraceImporter)       /* trace_scores.cc */       \
  ROW(kMeshRankingImporter) /* mesh_ranking.cc */       \
  ROW(kOldImatrixImporter)  /* imatrix_counts.cc */

#define SHARD_DECLARE_IMPORTER(name) extern const Importer name;
SHARD_IMPORTERS(SHARD_DECLARE_IMPORTER)
#undef SHARD_DECLARE_IMPORTER

}  // namespace moepack
