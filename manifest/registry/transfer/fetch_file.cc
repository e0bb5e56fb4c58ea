#include "manifest/registry/transfer/fetch_file.h"

#include <algorithm>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/limits.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/transfer/fetch_pass.h"
#include "manifest/registry/transfer/part_file.h"

namespace moepack::registry {
namespace {

// Wrong bytes of a transfer are right the second time; those of a corrupt copy never are.
constexpr int kMostAttempts = 2;  // after wrong bytes
// How often the file is restarted because another process took it away.
constexpr int kMostTakenAway = 3;
constexpr size_t kCellBuffer = 1u << 20;

bool IsHexDigest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// A map with other cells, or another number of them, is of no use here.
bool HasUsableMap(const StatedContent& stated, const CellMap& cells) {
  return stated.cells.bytes == cells.cell_bytes() && stated.cells.sha256.size() == cells.count();
}

Status CheckStated(const ByteSource& from, const StatedContent& stated,
                   const FetchOptions& options) {
  const auto wrong = [&](const std::string& what) {
    return Error{Code::kInvalidArgument, Cat(stated.name, ": ", what)};
  };
  if (!IsHexDigest(stated.sha256))
    return wrong(Cat("sha256: expected 64 hexadecimal digits, found ", Quoted(stated.sha256)));
  if (options.cell_bytes == 0 || options.piece_bytes == 0 || options.connections == 0)
    return wrong("expected cells, pieces and connections, found 0");
  const uint64_t cells = stated.size / options.cell_bytes;  // whole ones
  const bool more = cells > kMostCells || (cells == kMostCells && stated.size % options.cell_bytes);
  if (stated.size > kMaxFileBytes || more)
    return wrong(Cat("size: expected at most ", kMostCells, " cells of ", options.cell_bytes,
                     " bytes, found ", stated.size, " bytes"));
  if (from.size() == stated.size) return Ok();
  return Error{Code::kCorrupt,
               Cat(stated.name, ": size: expected ", stated.size, " bytes as stated, found ",
                   from.size(), " on the server (", from.name(), ")"),
               kCorruptOnServerHint};
}

// One lifetime of the partial file.
class Fetching {
 public:
  Fetching(const ByteSource& from, const StatedContent& stated, const FetchOptions& options,
           PieceBuffers& buffers, PartFile part)
      : from_(from),
        stated_(stated),
        options_(options),
        buffers_(buffers),
        part_(std::move(part)),
        pass_(options) {
    report_.resumed_bytes = part_.cells().done_bytes();
    pass_.connections = stated.size < options.parallel_from ? 1 : buffers.count();
  }

  Result<FetchReport> Run() {
    for (int attempt = 1;; ++attempt) {
      SHARD_TRY(const PassOutcome outcome, FetchMissing(from_, part_, buffers_, pass_));
      report_.fetched_bytes += outcome.fetched_bytes;
      if (attempt > 1) report_.again_bytes += outcome.fetched_bytes;
      if (outcome.sha256 == stated_.sha256) break;
      if (attempt == kMostAttempts) return Damaged(outcome.sha256);
      SHARD_CHECK(ForgetCorrupt(outcome.sha256));
    }
    SHARD_CHECK(part_.Publish());
    return report_;
  }

  // Another process renamed or removed the file, so an error says nothing about the source.
  bool TakenAway() const { return !discarded_ && !part_.IsOurs(); }
  // Removes what this process, or one that restarted meanwhile, has left beside the complete file.
  Status RemoveRest() { return part_.Discard(); }

 private:
  Error Damaged(const std::string& found) {
    discarded_ = true;
    const Status removed = part_.Discard();
    const std::string rest = removed ? "" : Cat("; ", removed.error().message);
    return {Code::kCorrupt,
            Cat(stated_.name, ": content: expected sha256:", stated_.sha256,
                ", found sha256:", found, "; discarded after ", kMostAttempts, " attempts", rest),
            kCorruptOnServerHint};
  }

  // With a chunk map only what differs from it is fetched again. If nothing does, the map and the
  // digest contradict each other, and the map is assumed to be wrong.
  Status ForgetCorrupt(const std::string& found) {
    SHARD_TRY(std::vector<uint64_t> cells, DamagedCells());
    const uint64_t count = part_.cells().count();
    if (cells.empty())
      for (uint64_t cell = 0; cell < count; ++cell) cells.push_back(cell);
    if (options_.warn)
      options_.warn(Cat(stated_.name, ": content: expected sha256:", stated_.sha256,
                        ", found sha256:", found, "; ", cells.size(), " of ", Plural(count, "cell"),
                        cells.size() == 1 ? " is fetched again" : " are fetched again"));
    return part_.Forget(cells);
  }

  Result<std::vector<uint64_t>> DamagedCells() const {
    std::vector<uint64_t> corrupt;
    if (!HasUsableMap(stated_, part_.cells())) return corrupt;
    PageBuffer buffer(kCellBuffer);
    for (uint64_t cell = 0; cell < part_.cells().count(); ++cell) {
      Sha256 sha256;
      const uint64_t begin = cell * options_.cell_bytes, bytes = part_.cells().BytesOf(cell);
      for (uint64_t at = 0; at < bytes; at += kCellBuffer) {
        SHARD_CHECK(CheckInterrupt());
        const auto step = buffer.bytes().first(std::min<uint64_t>(kCellBuffer, bytes - at));
        SHARD_CHECK(part_.Read(begin + at, step));
        sha256.Update(step);
      }
      if (sha256.Finish() != stated_.cells.sha256[cell]) corrupt.push_back(cell);
    }
    return corrupt;
  }

  const ByteSource& from_;
  const StatedContent& stated_;
  const FetchOptions& options_;
  PieceBuffers& buffers_;
  PartFile part_;
  FetchOptions pass_;  // with the connections of this file
  FetchReport report_;
  bool discarded_ = false;
};

// Whether `name` exists with the stated bytes.
bool IsBrought(const InsideDirectory& directory, const std::string& name,
               const StatedContent& stated) {
  const auto file = LocalTree(directory.path()).Open(name);
  if (!file || (*file)->size() != stated.size) return false;
  const auto sha256 = Sha256Of(**file);
  return sha256 && *sha256 == stated.sha256;
}

}  // namespace

Result<FetchReport> FetchFile(const ByteSource& from, const StatedContent& stated,
                              const InsideDirectory& directory, const std::string& name,
                              const FetchOptions& options, PieceBuffers& buffers) {
  SHARD_CHECK(CheckStated(from, stated, options));
  for (int begun = 1;; ++begun) {
    SHARD_TRY(PartFile part, PartFile::Open(directory, name,
                                            CellMap(stated.sha256, stated.size, options.cell_bytes),
                                            options.warn));
    Fetching fetching(from, stated, options, buffers, std::move(part));
    Result<FetchReport> report = fetching.Run();
    if (report || report.error().code == Code::kInterrupted || !fetching.TakenAway()) return report;
    // The other process may have taken the partial file because it had finished it.
    if (IsBrought(directory, name, stated)) {
      SHARD_CHECK(fetching.RemoveRest());
      if (options.progress) options.progress(stated.size, stated.size);
      FetchReport by_another;
      by_another.by_another = true;
      return by_another;
    }
    if (begun == kMostTakenAway) return report;
  }
}

Result<FetchReport> FetchFile(const ByteSource& from, const StatedContent& stated,
                              const InsideDirectory& directory, const std::string& name,
                              const FetchOptions& options) {
  PieceBuffers buffers(options.connections, options.piece_bytes);
  return FetchFile(from, stated, directory, name, options, buffers);
}

}  // namespace moepack::registry
