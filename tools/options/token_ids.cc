#include "tools/options/token_ids.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "tools/options/standard_input.h"

namespace moepack::cli {

namespace {

constexpr uint64_t kMaxIdsFileBytes = 64u << 20;
constexpr std::string_view kBetweenIds = ", \t\r\n";

}  // namespace

bool IsTokenIds(std::string_view text) {
  return text.find_first_not_of("0123456789, ") == std::string_view::npos;
}

Result<std::vector<uint32_t>> ReadTokenIds(const std::string& option, const std::string& text) {
  std::error_code ignored;
  const bool is_file = text == kStandardInput || fs::exists(text, ignored);
  if (IsTokenIds(text) || !is_file) return ParseTokenIds(option, text);
  SHARD_TRY(const std::string file, ReadFileOrInput(text, kMaxIdsFileBytes));
  auto ids = ParseTokenIds(option, file);
  if (!ids) return std::move(ids).error().Within(FileOrInput(text));
  return ids;
}

Result<std::vector<uint32_t>> ParseTokenIds(const std::string& option, std::string_view text) {
  std::string spaced(text);
  for (char& c : spaced) c = kBetweenIds.find(c) == std::string_view::npos ? c : ' ';
  std::vector<uint32_t> ids;
  for (const std::string& word : moepack::Split(spaced, ' ')) {
    if (word.empty()) continue;
    const std::optional<uint64_t> id = ParseUint(word);
    if (!id || *id > std::numeric_limits<uint32_t>::max())
      return Error{Code::kInvalidArgument,
                   Cat(option, ": expected token ids like 12,7,9, found ", Quoted(word))};
    ids.push_back(static_cast<uint32_t>(*id));
  }
  if (ids.empty()) return Error{Code::kInvalidArgument, Cat(option, ": give at least one token")};
  return ids;
}

CLI::Validator AsTolerance() {
  const auto check = [](std::string& text) {
    double value = -1;
    const bool number = CLI::detail::lexical_cast(text, value);
    if (number && std::isfinite(value) && value >= 0) return std::string();
    return Cat("expected a number, 0 or more, found ", Quoted(text));
  };
  return CLI::Validator(check, "");
}

}  // namespace moepack::cli
