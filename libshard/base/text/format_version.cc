#include "libshard/base/text/format_version.h"

#include <string>

#include "libshard/base/text/text.h"

namespace moepack {

std::optional<FormatVersion> ParseFormatVersion(std::string_view text) {
  const size_t point = text.find('.');
  if (point == text.npos) return std::nullopt;
  const std::string_view first = text.substr(0, point);
  const auto major = ParseUint(first), minor = ParseUint(text.substr(point + 1));
  const bool padded = first.size() > 1 && first.starts_with('0');
  if (!major || !minor || padded) return std::nullopt;
  return FormatVersion{*major, *minor};
}

Result<FormatVersion> CheckFormat(const JsonFields& fields, const char* name, unsigned major) {
  SHARD_TRY(const std::string format, fields.String("format"));
  if (format != name) {
    return Error{Code::kCorrupt,
                 Cat(fields.where(), ": format: expected \"", name, "\", found ", Quoted(format))};
  }
  SHARD_TRY(const std::string text, fields.String("format_version"));
  const std::optional<FormatVersion> version = ParseFormatVersion(text);
  if (!version) {
    return Error{Code::kCorrupt,
                 Cat(fields.where(), ": format_version: expected two numbers like 1.0, found ",
                     Quoted(text))};
  }
  if (version->major == major) return *version;
  return Error{
      Code::kUnsupported,
      Cat(fields.where(), ": format_version: expected ", major, ".x, found ", Quoted(text)),
      "use the moepack that wrote it, or a newer one"};
}

}  // namespace moepack
