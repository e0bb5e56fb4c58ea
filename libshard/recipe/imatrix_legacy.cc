// All numbers are little-endian:
//
//   i32 entries
//   entries x { i32 length, name, i32 calls, i32 values, f32 each }
//   then, unless the file ends here: i32 chunks
//   then, unless the file ends here: i32 length, name of the calibration text
#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/imatrix_read.h"

namespace moepack {
namespace {

constexpr uint32_t kMaxName = 1024;
// The bytes of the smallest entry, which has a name of one byte and one value.
constexpr size_t kLeastEntry = 4 + 1 + 4 + 4 + 4;

class LegacyReader {
 public:
  LegacyReader(const std::string& path, std::span<const std::byte> file)
      : path_(path), size_(file.size()), rest_(file) {}

  Result<Imatrix> Read() {
    SHARD_TRY(const uint32_t count, Number("number of entries"));
    if (count == 0 || count > rest_.size() / kLeastEntry) {
      return Wrong(
          Cat("expected an importance matrix (a GGUF file or a legacy one), found a "
              "number of entries of ",
              count, " before ", rest_.size(), " bytes; an entry has at least ", kLeastEntry));
    }
    Imatrix imatrix;
    for (uint32_t i = 0; i < count; ++i) SHARD_CHECK(Entry(imatrix));
    SHARD_CHECK(Trailer(imatrix));
    return imatrix;
  }

 private:
  Error Wrong(const std::string& message) const {
    return Error{Code::kCorrupt, Cat(path_, ": ", message)};
  }

  // All numbers of the format are counts, so none may be negative.
  Result<uint32_t> Number(const std::string& what) {
    if (rest_.size() < sizeof(int32_t)) {
      return Wrong(Cat(what, ": expected 4 bytes at ", size_ - rest_.size(), ", found ",
                       rest_.size(), " up to the end of the file"));
    }
    const auto number = LoadLe<int32_t>(rest_);
    if (number < 0) return Wrong(Cat(what, ": expected at least 0, found ", number));
    rest_ = rest_.subspan(sizeof(int32_t));
    return static_cast<uint32_t>(number);
  }

  Result<std::string> Name(const char* what) {
    SHARD_TRY(const uint32_t length, Number(Cat(what, ": length")));
    if (length > kMaxName || length > rest_.size()) {
      return Wrong(
          Cat(what, ": expected at most ", kMaxName, " bytes inside the file, found ", length));
    }
    std::string name(reinterpret_cast<const char*>(rest_.data()), length);
    rest_ = rest_.subspan(length);
    return name;
  }

  Status Entry(Imatrix& imatrix) {
    SHARD_TRY(const std::string name, Name("name of an entry"));
    const std::string where = Cat("entry ", Quoted(name));
    if (name.empty()) return Wrong("name of an entry: expected text, found none");
    if (imatrix.entries.contains(name)) return Wrong(Cat(where, ": expected once, found twice"));
    SHARD_TRY(const uint32_t calls, Number(where + ": number of calls"));
    SHARD_TRY(const uint32_t values, Number(where + ": number of values"));
    if (values == 0 || values > rest_.size() / sizeof(float)) {
      return Wrong(Cat(where, ": number of values: expected 1 to ", rest_.size() / sizeof(float),
                       " as the file goes on, found ", values));
    }
    ImatrixEntry& entry = imatrix.entries[name];
    entry.sums.resize(values);
    std::memcpy(entry.sums.data(), rest_.data(), values * sizeof(float));
    rest_ = rest_.subspan(values * sizeof(float));
    // Zero calls: the values are used as they are.
    entry.counts = {calls == 0 ? 1.0F : static_cast<float>(calls)};
    return Ok();
  }

  Status Trailer(Imatrix& imatrix) {
    if (rest_.empty()) return Ok();
    SHARD_TRY(imatrix.chunks, Number("number of chunks"));
    if (rest_.empty()) return Ok();
    SHARD_TRY(const std::string dataset, Name("name of the calibration text"));
    if (!dataset.empty()) imatrix.datasets.push_back(dataset);
    if (rest_.empty()) return Ok();
    return Wrong(
        Cat("expected the end at ", size_ - rest_.size(), ", found ", rest_.size(), " more bytes"));
  }

  const std::string& path_;
  const size_t size_;
  std::span<const std::byte> rest_;
};

}  // namespace

Result<Imatrix> ParseLegacyImatrix(const std::string& path, std::span<const std::byte> file) {
  return LegacyReader(path, file).Read();
}

}  // namespace moepack
