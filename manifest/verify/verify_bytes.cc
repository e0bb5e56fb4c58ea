// Reads all bytes of a distribution once: for the SHA-256 of each file, the XXH3-128 of each
// tensor, and the comparison with a source. Files are read in parallel, the largest first, so that
// no worker is left with a large one at the end. Each worker has two buffers of one mebibyte, small
// enough to be hashed while they are in the cache.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>

#include "libshard/base/digest.h"
#include "libshard/base/files/cell_digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/verify/proved_files.h"
#include "manifest/verify/sampled_tensors.h"
#include "manifest/verify/source_reader.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

using Bytes = std::span<const std::byte>;

namespace {

// What all workers share.
struct Pass {
  const SourceTree& tree;
  VerifyOptions options;
  std::atomic<uint64_t> source_bytes{0}, cold_bytes{0};
  uint64_t done = 0, total = 0;
  std::mutex mutex;

  void Advance(uint64_t bytes) {
    const std::lock_guard lock(mutex);
    done += bytes;
    if (options.progress) options.progress(done, total);
  }
};

// A part of a file with its own digest or source: a tensor, or a whole asset.
struct Piece {
  uint64_t offset = 0, bytes = 0;
  const TensorRecord* tensor = nullptr;
  const SourceSlices* source = nullptr;
};

std::vector<Piece> PiecesOf(const CheckedFile& file, const VerifyOptions& options) {
  std::vector<Piece> pieces;
  const auto source = [&](size_t i) {
    const bool known = i < file.sources.size() && file.sources[i].file != nullptr;
    return known ? &file.sources[i] : nullptr;
  };
  if (file.bundle == nullptr) return {{0, file.size, nullptr, source(0)}};
  const auto add = [&](size_t i) {
    const TensorRecord& tensor = file.bundle->tensors[i];
    pieces.push_back({tensor.offset, tensor.bytes, &tensor, source(i)});
  };
  if (IsSampled(file.bundle, file.size, options)) {
    for (const size_t i : SampledTensors(*file.bundle, options)) add(i);
  } else {
    for (size_t i = 0; i < file.bundle->tensors.size(); ++i) add(i);
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  return pieces;
}

// The bytes of a file that will be read.
uint64_t BytesToRead(const CheckedFile& file, const VerifyOptions& options) {
  if (!IsSampled(file.bundle, file.size, options)) return file.size;
  uint64_t bytes = 0;
  for (const Piece& piece : PiecesOf(file, options)) bytes += piece.bytes;
  return bytes;
}

const CellDigests& CellsOf(const CheckedFile& file) {
  static const CellDigests none;
  return file.bundle == nullptr ? none : file.bundle->cells;
}

// The last part of a path or address.
std::string FileName(const std::string& name) { return name.substr(name.rfind('/') + 1); }

// If the file or what it is compared with is on another machine, each step is a request.
size_t StepOf(const SourceTree& tree, const CheckedFile& file) {
  const auto source = tree.Open(file.file);
  size_t step = source ? ScanStep(**source) : 1;
  for (const SourceSlices& slices : file.sources)
    if (slices.file != nullptr) step = std::max(step, ScanStep(*slices.file));
  return step;
}

// Copies what was found over the source's bytes where they are allowed to differ: slices of experts
// that a refit made. `position` is that of both in the tensor.
void LeaveDerived(const SourceSlices& slices, uint64_t position, Bytes found,
                  std::span<std::byte> expected) {
  if (slices.derived.empty()) return;
  const uint64_t held = slices.slice * slices.ids.size();
  for (size_t at = 0; at < found.size();) {
    const uint64_t in_row = (position + at) % held;
    const uint64_t left = slices.slice - in_row % slices.slice;
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(left, found.size() - at));
    if (moepack::Contains(slices.derived, slices.ids[in_row / slices.slice]))
      std::memcpy(expected.data() + at, found.data() + at, bytes);
    at += bytes;
  }
}

// Reads one file from front to back.
class FileCheck {
 public:
  FileCheck(Pass& pass, const CheckedFile& file, Findings& findings)
      : pass_(pass),
        checked_(file),
        findings_(findings),
        pieces_(PiecesOf(file, pass.options)),
        step_(StepOf(pass.tree, file)),
        buffer_(step_),
        compare_(file.sources.empty() ? 0 : step_),
        sha256_(CellsOf(file).bytes) {}

  Status Run() {
    const Result<ByteSourcePtr> source = pass_.tree.Open(checked_.file);
    if (!source) return Unreadable(source.error());
    ScanFile file(**source, pass_.options.cold);
    if (IsSampled(checked_.bundle, checked_.size, pass_.options)) return RunSample(file);
    for (uint64_t offset = 0; offset < checked_.size; offset += step_) {
      SHARD_CHECK(CheckInterrupt());
      const std::span<std::byte> chunk =
          buffer_.bytes().first(std::min<uint64_t>(step_, checked_.size - offset));
      Status read = file.Read(offset, chunk.size(), buffer_);
      if (!read) return Unreadable(read.error());
      SHARD_CHECK(Take(offset, chunk));
      pass_.Advance(chunk.size());
    }
    pass_.cold_bytes += file.direct_bytes();
    SHARD_CHECK(Take(checked_.size, {}));  // finishes empty tensors at the end of the file
    FinishFile();
    return Ok();
  }

 private:
  Status Unreadable(const Error& error) {
    RuleFindings("file-readable", findings_).Error(error.message, checked_.file);
    return Ok();
  }

  // Reads only the chosen pieces. Reads start on a page, which may be before the piece.
  Status RunSample(ScanFile& file) {
    for (const Piece& piece : pieces_) {
      const uint64_t end = piece.offset + piece.bytes;
      for (uint64_t offset = piece.offset / kScanPage * kScanPage; offset < end; offset += step_) {
        SHARD_CHECK(CheckInterrupt());
        const auto size = static_cast<size_t>(std::min<uint64_t>(step_, end - offset));
        Status read = file.Read(offset, size, buffer_);
        if (!read) return Unreadable(read.error());
        const uint64_t from = std::max(offset, piece.offset);
        const Bytes chunk = Bytes(buffer_.bytes()).first(size).subspan(from - offset);
        SHARD_CHECK(TakePiece(piece, from - piece.offset, chunk));
        pass_.Advance(chunk.size());
      }
      FinishPiece(piece);
    }
    pass_.cold_bytes += file.direct_bytes();
    return Ok();
  }

  // Passes `chunk`, the file's bytes from `offset` on, to the pieces that overlap it.
  Status Take(uint64_t offset, Bytes chunk) {
    if (pass_.options.digests) sha256_.Update(chunk);
    const uint64_t end = offset + chunk.size();
    for (; next_ < pieces_.size() && pieces_[next_].offset <= end; ++next_) {
      const Piece& piece = pieces_[next_];
      const uint64_t from = std::max(offset, piece.offset);
      const uint64_t to = std::min(end, piece.offset + piece.bytes);
      if (from < to) {
        SHARD_CHECK(TakePiece(piece, from - piece.offset, chunk.subspan(from - offset, to - from)));
      }
      if (piece.offset + piece.bytes > end) return Ok();
      FinishPiece(piece);
    }
    return Ok();
  }

  Status TakePiece(const Piece& piece, uint64_t position, Bytes bytes) {
    if (pass_.options.digests && piece.tensor != nullptr) xxh3_.Update(bytes);
    // One difference per tensor is enough, and the rest of the source need not be read for it.
    if (piece.source == nullptr || differs_at_) return Ok();
    const std::span<std::byte> expected(compare_.data(), bytes.size());
    SHARD_CHECK(reader_.Read(*piece.source, position, expected));
    pass_.source_bytes += bytes.size();
    LeaveDerived(*piece.source, position, bytes, expected);
    if (std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0) return Ok();
    const auto place = std::mismatch(bytes.begin(), bytes.end(), expected.begin());
    differs_at_ = position + static_cast<uint64_t>(place.first - bytes.begin());
    expected_ = *place.second;
    found_ = *place.first;
    return Ok();
  }

  void FinishPiece(const Piece& piece) {
    const std::string name = piece.tensor == nullptr ? "" : piece.tensor->name;
    if (pass_.options.digests && piece.tensor != nullptr) {
      const std::string found = xxh3_.Hex();
      if (found != piece.tensor->xxh3) {
        RuleFindings("tensor-xxh3", findings_)
            .Error(Cat("XXH3-128: expected ", piece.tensor->xxh3, ", found ", found), checked_.file,
                   name);
      }
      xxh3_.Reset();
    }
    if (!differs_at_) return;
    const char* rule = piece.tensor == nullptr ? "source-assets" : "source-bytes";
    RuleFindings(rule, findings_)
        .Error(
            Cat("byte ", *differs_at_, " (", piece.offset + *differs_at_,
                " of the file): expected ", static_cast<int>(expected_), " as in ",
                Quoted(FileName(piece.source->file->name())), ", found ", static_cast<int>(found_)),
            checked_.file, name);
    differs_at_.reset();
  }

  void FinishFile() {
    if (!pass_.options.digests) return;
    const std::string found = sha256_.Finish();
    RuleFindings rule(checked_.bundle == nullptr ? "assets-sha256" : "file-sha256", findings_);
    if (found != checked_.sha256)
      rule.Error(Cat("SHA-256: expected ", checked_.sha256, ", found ", found), checked_.file);
    const CellDigests& expected = CellsOf(checked_);
    const CellDigests cells = sha256_.TakeCells();
    for (size_t i = 0; i < std::min(expected.sha256.size(), cells.sha256.size()); ++i) {
      if (cells.sha256[i] == expected.sha256[i]) continue;
      rule.Error(
          Cat("SHA-256 of cell ", i, " (", expected.bytes, " bytes from byte ", i * expected.bytes,
              "): expected ", expected.sha256[i], ", found ", cells.sha256[i]),
          checked_.file);
    }
  }

  Pass& pass_;
  const CheckedFile& checked_;
  Findings& findings_;
  std::vector<Piece> pieces_;  // by offset
  size_t next_ = 0;            // the first unfinished piece
  size_t step_;                // bytes that are read at once
  PageBuffer buffer_;
  std::vector<std::byte> compare_;
  SourceReader reader_;
  CellSha256 sha256_;
  Xxh3 xxh3_;
  std::optional<uint64_t> differs_at_;  // first difference of the piece being read
  std::byte expected_{}, found_{};
};

// The files that a pass reads, the largest first; those verified before are not read.
struct Reading {
  std::vector<size_t> order;
  std::vector<ProvedFiles::File> names;  // of every file; empty without notes
  size_t proved = 0, proved_before_bytes = 0;
};

Reading ReadingOf(const std::vector<CheckedFile>& files, const ProvedFiles* notes, Pass& pass) {
  Reading reading;
  reading.names.resize(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    if (!files[i].readable) continue;
    if (notes != nullptr) {
      const auto source = pass.tree.Open(files[i].file);
      if (source)
        reading.names[i] = {files[i].file, files[i].sha256, (*source)->identity(),
                            pass.options.cold};
      if (source && notes->Has(reading.names[i])) {
        ++reading.proved;
        reading.proved_before_bytes += files[i].size;
        continue;
      }
    }
    reading.order.push_back(i);
    pass.total += BytesToRead(files[i], pass.options);
  }
  std::stable_sort(reading.order.begin(), reading.order.end(),
                   [&](size_t a, size_t b) { return files[a].size > files[b].size; });
  return reading;
}

Status ReadAll(const std::vector<CheckedFile>& files, ProvedFiles* notes, Pass& pass,
               VerifyReport& report) {
  const Reading reading = ReadingOf(files, notes, pass);
  // one list per file, so that the order of the report does not depend on the threads
  std::vector<Findings> found(files.size());
  const size_t jobs = ThreadsForFiles(pass.options.jobs);
  const auto check = [&](size_t i) -> Status {
    const size_t file = reading.order[i];
    SHARD_CHECK(FileCheck(pass, files[file], found[file]).Run());
    // Only a file without findings is noted, so that a repaired one is read again.
    if (notes == nullptr || !found[file].empty()) return Ok();
    return notes->Add(reading.names[file]);
  };
  SHARD_CHECK(ParallelFor(reading.order.size(), jobs, check));
  for (Findings& findings : found)
    std::move(findings.begin(), findings.end(), std::back_inserter(report.findings));
  // The notes have served their purpose; left there, they would spare a later run its work. Where
  // something is missing or wrong they will.
  if (notes != nullptr && report.passed()) notes->Remove();
  if (reading.proved > 0) {
    report.rules.push_back("files-proved-before");
    RuleFindings("files-proved-before", report.findings)
        .Note(Cat(reading.proved, " of ", Plural(files.size(), "file"), " (",
                  FormatBytes(reading.proved_before_bytes), ") proved right in an earlier run, as ",
                  pass.options.resume_file, " says, and were not changed since"));
  }
  return Ok();
}

}  // namespace

Status CheckBytes(const SourceTree& tree, const std::vector<CheckedFile>& files,
                  const VerifyOptions& options, VerifyReport& report) {
  Pass pass{.tree = tree, .options = options, .mutex = {}};
  if (options.resume_file.empty()) {
    SHARD_CHECK(ReadAll(files, nullptr, pass, report));
  } else {
    SHARD_TRY(ProvedFiles notes, ProvedFiles::Open(options.resume_file));
    SHARD_CHECK(ReadAll(files, &notes, pass, report));
  }
  report.bytes += pass.done;
  report.source_bytes += pass.source_bytes;
  report.cold_bytes += pass.cold_bytes;
  return Ok();
}

}  // namespace moepack::manifest
