#include "libshard/recipe/imatrix_groups.h"

#include <algorithm>
#include <cstddef>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr std::string_view kGroupPrefix = "group.";
constexpr unsigned kGroupDigits = 3;

Error WrongLength(const Imatrix& imatrix, const std::string& name, const ImatrixEntry& entry,
                  size_t expert_count, uint64_t row) {
  return {Code::kMismatch,
          Cat(imatrix.shown(), ": entry ", Quoted(name), ": expected ", expert_count * row,
              " sums with ", Plural(expert_count, "count"), ", found ", entry.sums.size(), " with ",
              entry.counts.size()),
          "use the importance matrix of this refit"};
}

}  // namespace

std::string GroupEntryName(uint32_t group, std::string_view tensor) {
  return Cat(kGroupPrefix, ZeroPadded(group, kGroupDigits), ".", tensor);
}

bool IsGroupEntry(std::string_view name) { return name.starts_with(kGroupPrefix); }

Result<std::shared_ptr<const Importance>> GroupImportance(const Imatrix& imatrix,
                                                          const GgufTensor& tensor,
                                                          const GroupExperts& experts) {
  std::string name;
  auto found = imatrix.entries.end();
  for (const std::string& matrix : NamesOfSameInput(tensor.name)) {
    if (found != imatrix.entries.end()) break;
    name = GroupEntryName(experts.group, matrix);
    found = imatrix.entries.find(name);
  }
  if (found == imatrix.entries.end() || tensor.importance == nullptr) return tensor.importance;
  const ImatrixEntry& entry = found->second;
  const uint64_t row = tensor.row_values();
  const size_t count = experts.ids.size();
  if (entry.counts.size() != count || entry.sums.size() != count * row)
    return WrongLength(imatrix, name, entry, count, row);
  auto own = std::make_shared<Importance>();
  own->row_values = row;
  // Experts that the group did not refit keep the rows of the whole matrix.
  for (uint64_t id = 0; id < tensor.expert_count; ++id) {
    const std::span<const float> all = tensor.importance->Row(id);
    own->values.insert(own->values.end(), all.begin(), all.end());
  }
  for (size_t i = 0; i < count; ++i) {
    // An expert that no token chose has no data of its own.
    if (entry.counts[i] <= 0) continue;
    const auto to = own->values.begin() + static_cast<std::ptrdiff_t>(experts.ids[i] * row);
    for (uint64_t column = 0; column < row; ++column)
      to[static_cast<std::ptrdiff_t>(column)] = entry.sums[i * row + column] / entry.counts[i];
  }
  own->digest = Xxh3Hex(std::as_bytes(std::span(own->values)));
  return std::shared_ptr<const Importance>(std::move(own));
}

}  // namespace moepack
