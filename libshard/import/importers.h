// The formats, each in a file of its own name. The list is in import.cc.
#pragma once

#include "libshard/import/import.h"

namespace moepack {

extern const Importer kMoepackImporter;      // moepack_statistics.cc
extern const Importer kScoresImporter;       // scores_file.cc
extern const Importer kImatrixImporter;      // imatrix_counts.cc
extern const Importer kOldImatrixImporter;   // imatrix_counts.cc
extern const Importer kHotCacheImporter;     // hot_cache.cc
extern const Importer kMeshRankingImporter;  // mesh_ranking.cc
extern const Importer kReapImporter;         // reap_scores.cc
extern const Importer kReapTensorsImporter;  // reap_tensors.cc
extern const Importer kTraceImporter;        // trace_scores.cc
extern const Importer kSglangImporter;       // sglang_counts.cc
extern const Importer kVllmAscendImporter;   // vllm_ascend.cc

}  // namespace moepack
