// ReadExpertScores as a target: whatever is read from arbitrary bytes can be used.
#pragma once

#include "libshard/base/files/memory_tree.h"
#include "libshard/import/export.h"
#include "libshard/import/import.h"
#include "tests/fuzz/target.h"

namespace fuzz {

inline constexpr const char* kScoresWhere = "damaged.scores";
// A few names of layers and experts make a table of up to 32 million scores; writing one as JSON
// takes seconds and gigabytes.
inline constexpr size_t kMostWritten = size_t{1} << 18;

// All scores are present, and every format can be written, unless there are very many.
inline std::string CheckScores(std::string_view input) {
  const moepack::MemorySource file(kScoresWhere, std::string(input));
  const auto scores = moepack::ReadExpertScores(file, {});
  if (!scores) return ErrorProblem(scores.error(), kScoresWhere);
  if (!moepack::CheckExpertScores(kScoresWhere, *scores))
    return "scores that do not pass their check";
  if (scores->Offset(scores->layers.size()) * scores->sessions.size() > kMostWritten) return "";
  for (const moepack::Exporter* exporter : moepack::Exporters()) {
    if (exporter->needs_plan) continue;
    const auto text = exporter->write(*scores, {});
    if (text && text->empty()) return "a format without text";
  }
  return "";
}

}  // namespace fuzz
