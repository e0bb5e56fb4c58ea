#include "tests/bench/encode_alone.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>

#include "libshard/base/files/file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf.h"
#include "libshard/pack/encode_rows.h"

namespace bench {
namespace {

using moepack::Cat;
using moepack::Code;
using moepack::Error;

class Clock {
 public:
  Sample Stop() const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    return {.seconds = elapsed.count()};
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Values of one type in rows of one length, about as many as a thread takes at once.
struct Tile {
  moepack::OutputTensor tensor;
  uint64_t bytes;  // of BF16
};

constexpr uint64_t kTileValues = 1 << 19;

void AddTiles(const moepack::TensorEntry& entry, std::vector<Tile>& tiles) {
  if (entry.format == nullptr || moepack::IsPlainFloat(entry.format) || entry.shape.empty()) return;
  uint64_t values = 1;
  for (const uint64_t size : entry.shape) values *= size;
  Tile tile;
  moepack::Encoding encoding;
  encoding.from = quant::FindFormat("bf16");
  encoding.to = entry.format;
  encoding.row_values = entry.shape.back();
  tile.tensor.encoding = std::make_shared<const moepack::Encoding>(encoding);
  const uint64_t rows = std::max<uint64_t>(1, kTileValues / encoding.row_values);
  for (uint64_t left = values / encoding.row_values; left > 0;) {
    const uint64_t taken = std::min(rows, left);
    tile.bytes = taken * encoding.row_values * 2;
    tiles.push_back(tile);
    left -= taken;
  }
}

Result<std::vector<Tile>> TilesOf(const fs::path& output) {
  std::vector<Tile> tiles;
  std::set<std::string> seen;  // one file may have several names
  for (const auto& entry : fs::recursive_directory_iterator(output)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".gguf") continue;
    SHARD_TRY(moepack::InputFile input, moepack::InputFile::Open(entry.path()));
    if (!seen.insert(input.identity()).second) continue;
    SHARD_TRY(moepack::MappedFile file, moepack::MappedFile::Map(input));
    SHARD_TRY(moepack::GgufHeader header,
              moepack::ParseGguf(entry.path().string(), file.bytes(), file.bytes().size()));
    for (const moepack::TensorEntry& tensor : header.tensors) AddTiles(tensor, tiles);
  }
  return tiles;
}

}  // namespace

Result<Sample> ReadAlone(const fs::path& tree) {
  const Clock clock;
  SHARD_CHECK(WarmTree(tree));
  return clock.Stop();
}

Result<Sample> EncodeAlone(const fs::path& output, const fs::path& source, size_t threads) {
  SHARD_TRY(std::vector<Tile> tiles, TilesOf(output));
  if (tiles.empty()) {
    return Error{Code::kNotFound, Cat(output.string(), ": expected encoded tensors, found none")};
  }
  SHARD_TRY(const moepack::InputFile input, moepack::InputFile::Open(source));
  SHARD_TRY(moepack::MappedFile file, moepack::MappedFile::Map(input));
  // The middle of the file: past the header, in the experts.
  const std::span<const std::byte> bytes =
      file.bytes().subspan(file.bytes().size() / 2).first(file.bytes().size() / 4 & ~size_t{1});
  const Clock clock;
  SHARD_CHECK(moepack::ParallelFor(tiles.size(), threads, [&](size_t i) {
    thread_local moepack::RowEncoder encoder;
    thread_local std::vector<std::byte> out;
    const Tile& tile = tiles[i];
    if (tile.bytes > bytes.size()) {
      return moepack::Status(Error{Code::kInvalidArgument, "the source is too small"});
    }
    const size_t at = i * tile.bytes % (bytes.size() - tile.bytes + 1) & ~size_t{1};
    encoder.Encode(tile.tensor, 0, bytes.subspan(at, tile.bytes), out);
    return moepack::Ok();
  }));
  return clock.Stop();
}

Result<Sample> WriteAlone(const fs::path& like, const fs::path& copy) {
  fs::remove_all(copy);
  fs::create_directories(copy);
  const std::vector<char> buffer(size_t{4} << 20, 'x');
  const Clock clock;
  int number = 0;
  for (const auto& entry : fs::recursive_directory_iterator(like)) {
    if (!entry.is_regular_file()) continue;
    std::ofstream out(copy / std::to_string(number++), std::ios::binary);
    for (uint64_t left = entry.file_size(); left > 0;) {
      const uint64_t count = std::min<uint64_t>(left, buffer.size());
      out.write(buffer.data(), static_cast<std::streamsize>(count));
      left -= count;
    }
    if (!out.flush()) return Error{Code::kIo, Cat(copy.string(), ": cannot be written")};
  }
  SHARD_CHECK(FlushTree(copy));
  return clock.Stop();
}

}  // namespace bench
