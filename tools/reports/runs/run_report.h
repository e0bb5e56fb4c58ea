// The output of run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime-shim/masking/compare.h"
#include "runtime-shim/session/node.h"
#include "tools/base/command.h"

namespace moepack::cli {

// What was generated, and how long it took.
struct GeneratedText {
  std::vector<uint32_t> prompt;
  std::vector<runtime::NextToken> tokens;
  std::string text;       // bytes, including those that are not UTF-8
  const char* stop = "";  // "end" (an end token), "length" (-n), "context" (full)
  double prompt_seconds = 0, seconds = 0;
};
std::string GeneratedSummary(const GeneratedText& generated);
moepack::Json GeneratedJson(const GeneratedText& generated);

struct ComparedRuns {
  std::string expected, actual;  // executors
  size_t prompt = 0;             // tokens; the others were generated
  runtime::SideBySide::Findings findings;
  std::optional<double> tolerance;  // if one was requested
  bool passed() const { return !tolerance || findings.worst.relative <= *tolerance; }
};
// `tokenizer` may be null.
std::string ComparedText(const ComparedRuns& runs, const runtime::Tokenizer* tokenizer);
moepack::Json ComparedJson(const ComparedRuns& runs);

}  // namespace moepack::cli
