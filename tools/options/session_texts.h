// Texts and token ids that a command runs a model on, read as sessions: options and file formats.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/model/weights.h"
#include "runtime-shim/profile/windows.h"
#include "tools/base/command.h"

namespace moepack::cli {

using runtime::TokenSession;

struct TextArguments {
  std::vector<std::string> texts, tokens;
  std::string bucket;
};
// --text, --tokens, --bucket.
void AddTexts(CLI::App& app, TextArguments& arguments);
void AddNamedFiles(const TextArguments& arguments, std::vector<std::string>& files);

// The tokens of a text, including those that a model puts in front of every text.
using Tokenize = std::function<Result<std::vector<uint32_t>>(std::string_view text)>;
// Uses the model's own tokenizer, which is made when the first text arrives: token ids need none.
Tokenize TokenizeAs(std::shared_ptr<const runtime::Weights> weights);
// Whether an id ends a generation; never, for a model without a supported tokenizer.
std::function<bool(uint32_t id)> EndsGeneration(const runtime::Weights& weights);
// What can be said of the files before a model is loaded: kInvalidArgument if none was named, and
// an error for one that cannot be read.
Status CheckTextFiles(const TextArguments& arguments);
// Every file of `texts` is one session, except .jsonl files: one per line, {"text": ...} or
// {"tokens": [...]}, with "session" and "bucket" if it has them, and nothing else. Standard input
// is either, by its first line. A session without a name gets that of its file, or its path if
// several files have that name. Every file of `tokens` is one session of ids separated by white
// space, or one session per line if the lines are JSON arrays. Ids must be below `vocabulary`.
// kInvalidArgument if no file was named, kCorrupt for files in other formats, sessions without
// tokens and duplicate names.
Result<std::vector<TokenSession>> ReadSessions(const TextArguments& arguments, uint32_t vocabulary,
                                               const Tokenize& tokenize);

}  // namespace moepack::cli
