// Encodes rows, and decodes blocks of arbitrary bytes, with every type's kernel and its scalar
// reference; the exit status is 1 if bytes differ. In `make soak` (MOEPACK_SOAK is set) there are
// more rows.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "quant/format.h"
#include "tests/quant/test_rows.h"

namespace quant {
namespace {

const bool kSoak = std::getenv("MOEPACK_SOAK") != nullptr;

std::vector<TestRow> Rows() {
  std::vector<TestRow> rows = RandomRows(7, kSoak ? 20 : 8);
  for (auto& more : {FlatRows(), PatternRows(), RowsOfAnyBits(8, kSoak ? 5 : 2), NonFiniteRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

bool SameBytes(const Format& format, const TestRow& row, std::span<const float> importance) {
  std::vector<std::byte> kernel(*format.BytesFor(row.values.size())), reference(kernel.size());
  format.encode(row.values, importance, kernel);
  format.encode_reference(row.values, importance, reference);
  return kernel == reference;
}

bool SameValues(const Format& format, std::span<const std::byte> blocks) {
  const size_t count = blocks.size() / format.block_bytes * format.block_values;
  std::vector<float> kernel(count), reference(count);
  format.decode(blocks, kernel);
  format.decode_reference(blocks, reference);
  return std::memcmp(kernel.data(), reference.data(), count * sizeof(float)) == 0;
}

bool CompareDecoders() {
  fuzz::Random random(10);
  size_t decoded = 0, different = 0;
  for (const Format& format : AllFormats()) {
    if (format.decode == nullptr) continue;
    for (size_t blocks = 1; blocks <= (kSoak ? 200 : 50); ++blocks) {
      std::vector<std::byte> bytes(blocks * format.block_bytes);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
      ++decoded;
      if (SameValues(format, bytes)) continue;
      ++different;
      std::printf("%s: %zu blocks: values differ\n", format.name.data(), blocks);
    }
  }
  std::printf("%zu rows decoded, %zu differ\n", decoded, different);
  return decoded != 0 && different == 0;
}

bool CompareEncoders() {
  const std::vector<TestRow> rows = Rows(), importances = Importances(9);
  size_t encoded = 0, different = 0;
  const auto compare = [&](const Format& format, const TestRow& row, const TestRow* importance) {
    ++encoded;
    if (SameBytes(format, row, importance ? importance->values : std::vector<float>())) return;
    ++different;
    std::printf("%s: row \"%s\", importance %s: bytes differ\n", format.name.data(),
                row.name.c_str(), importance ? importance->name.c_str() : "none");
  };
  for (const Format& format : AllFormats()) {
    if (format.encode == nullptr) continue;
    for (const TestRow& row : rows) {
      compare(format, row, nullptr);
      if (!format.uses_importance) continue;
      for (const TestRow& importance : importances) compare(format, row, &importance);
    }
  }
  std::printf("%zu rows encoded, %zu differ\n", encoded, different);
  return encoded != 0 && different == 0;
}

}  // namespace
}  // namespace quant

int main() {
  const bool same = quant::CompareDecoders() && quant::CompareEncoders();
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
