// Expert scores from the files of other tools and from our own, whatever the format. Files are
// hostile until they are read; docs/statistics.md says what each format loses.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

struct ImportOptions {
  // The layers of the model that the scores are for, ascending; empty if unknown. Some formats do
  // not say how many layers or experts there are and are refused without it.
  std::vector<MoeLayerShape> model;
  std::optional<ScoreBasis> basis;  // refused if a file does not have it
  bool pairs = true;                // false: omit ExpertScores::co_selection to save memory
  std::string format;               // a name of Importers(); "" to recognise it by content
};

// One format; its own file defines it, and import.cc lists it.
struct Importer {
  std::string_view name;
  const char* reads;  // what it reads, for help: no capital, no full stop
  // `head` is the first kImportHead bytes of the file's text, or all of a shorter one.
  bool (*looks_like)(std::string_view head);
  // Returns one table, or the sessions of the file. `format`, `digest` and empty names of sessions
  // are set by the caller, which also checks the result.
  Result<ExpertScores> (*read)(const ByteSource& file, const ImportOptions& options);
  bool reads_zstd = false;  // the file may be compressed
};
inline constexpr size_t kImportHead = 64u << 10;

// All formats; the first that looks like a file reads it.
std::span<const Importer* const> Importers();
// Null if there is no such format.
const Importer* FindImporter(std::string_view name);
// The format of a local file, judged by its content; null if it is not known.
Result<const Importer*> RecognizeFormat(const std::string& path);

// Refuses a local file recognised as another format: kUnsupported names it. For commands that need
// what only `profile` measures.
Status CheckIsProfile(const std::string& path);
// Reads statistics of `profile` like ReadExpertScores, and refuses others as above.
Result<ExpertScores> ReadProfileScores(const std::string& path, std::optional<ScoreBasis> basis);

// Reads one file. The result passes CheckExpertScores and, with a model, CheckScoresFit; every
// layer has scores. kUnsupported for an unknown format or one without counts, kMismatch for another
// model, kInvalidArgument for missing options or a basis that the file does not have, kCorrupt for
// everything else.
Result<ExpertScores> ReadExpertScores(const ByteSource& file, const ImportOptions& options);
// Reads local files and joins them: all sessions in the order of the files. A duplicate session
// name is kInvalidArgument; different layers, bases or routers are kMismatch. The digest of several
// files is that of their digests. REQUIRES: at least one path.
Result<ExpertScores> ReadExpertScores(const std::vector<std::string>& paths,
                                      const ImportOptions& options);

// Appends the sessions of `other`, as above. Co-selection is kept only if both have it.
Status JoinScores(const std::string& where, ExpertScores other, ExpertScores& into);

// The layers that a model's statistics cover: all but those for multi-token prediction, which take
// no part in a forward pass.
std::vector<MoeLayerShape> MeasuredLayers(const MoeModel& model);

// The formats of statistics that are read; this list makes them known. The first that recognises a
// file reads it, so formats with a magic or a name of their own come before those recognised by
// their keys. Scores name the format that they were read from, so they come first.
#define SHARD_IMPORTERS(ROW)                            \
  ROW(kScoresImporter)      /* scores_file.cc */        \
  ROW(kMoepackImporter)     /* moepack_statistics.cc */ \
  ROW(kImatrixImporter)     /* imatrix_counts.cc */     \
  ROW(kReapTensorsImporter) /* reap.cc */               \
  ROW(kHotCacheImporter)    /* hot_cache.cc */          \
  ROW(kSglangImporter)      /* sglang_counts.cc */      \
  ROW(kReapImporter)        /* reap.cc */               \
  ROW(kVllmAscendImporter)  /* vllm_ascend.cc */        \
  ROW(kTraceImporter)       /* route_trace.cc */        \
  ROW(kMeshRankingImporter) /* mesh_ranking.cc */       \
  ROW(kOldImatrixImporter)  /* imatrix_counts.cc */

#define SHARD_DECLARE_IMPORTER(name) extern const Importer name;
SHARD_IMPORTERS(SHARD_DECLARE_IMPORTER)
#undef SHARD_DECLARE_IMPORTER

}  // namespace moepack
