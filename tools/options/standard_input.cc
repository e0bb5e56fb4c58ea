#include "tools/options/standard_input.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMaxPromptBytes = 1u << 30;
constexpr const char* kInputName = "standard input";

// The options that read it.
constexpr std::array kInputReaders = {"--text",
                                      "--tokens",
                                      "--prompt",
                                      "--calibrate",
                                      "--calibrate-tokens",
                                      "--held-out-text",
                                      "--calibrate-held-out-text"};

Result<std::string> ReadAllOfInput(uint64_t limit) {
  std::string text;
  std::array<char, 1 << 16> piece;
  while (const size_t got = std::fread(piece.data(), 1, piece.size(), stdin)) {
    text.append(piece.data(), got);
    if (text.size() > limit)
      return Error{Code::kInvalidArgument,
                   Cat(kInputName, ": expected at most ", FormatBytes(limit), ", found more"),
                   "write the text to a file in parts, and name these"};
  }
  if (std::ferror(stdin) != 0)
    return Error{Code::kIo, Cat(kInputName, ": reading failed: ", ErrnoText(errno))};
  return text;
}

}  // namespace

Result<std::string> ReadFileOrInput(const std::string& path, uint64_t limit) {
  if (path != kStandardInput) return ReadTextFile(path, limit);
  static std::optional<std::string> kept;
  if (!kept) {
    SHARD_TRY(kept, ReadAllOfInput(limit));
  }
  return *kept;
}

std::string FileOrInput(const std::string& path) {
  return path == kStandardInput ? kInputName : path;
}

Result<std::string> ReadPrompt(const std::string& prompt) {
  if (prompt != kStandardInput) return prompt;
  SHARD_TRY(std::string text, ReadFileOrInput(prompt, kMaxPromptBytes));
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty())
    return Error{Code::kInvalidArgument, "--prompt: expected text, found none",
                 "standard input is empty"};
  return text;
}

Status CheckStandardInput(const CLI::App& app) {
  std::string first;
  for (const char* name : kInputReaders) {
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) continue;
    for (const std::string& value : option->results()) {
      if (value != kStandardInput) continue;
      if (!first.empty())
        return Error{Code::kInvalidArgument,
                     Cat(first, " - and ", name, " - cannot be used together"),
                     "standard input can be read once: name a file for one of them"};
      first = name;
    }
  }
  return Ok();
}

}  // namespace moepack::cli
