#include "libshard/model/block_name.h"

#include "libshard/base/text/text.h"

namespace moepack {

std::optional<BlockName> ParseBlockName(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(0, dot);
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return BlockName{ParseUint(digits).value_or(UINT64_MAX), name.substr(dot + 1)};
}

}  // namespace moepack
