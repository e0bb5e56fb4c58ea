#include "libshard/pack.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "libshard/digest.h"
#include "libshard/journal.h"
#include "libshard/output_stream.h"
#include "libshard/pack_units.h"
#include "libshard/parallel.h"
#include "libshard/text.h"

namespace shard {
namespace {

// Large enough for full disk speed, small enough to stay in the second-level cache between reading,
// hashing and writing.
constexpr uint64_t kChunk = 1u << 20;
constexpr uint64_t kSmallestChunk = 64u << 10;
// Room for directories and README, and per tensor for its lines in journal and manifest.
constexpr uint64_t kSpareBytes = 256u << 10, kSpareBytesPerTensor = 1u << 10;

size_t JobCount(const PackOptions& options, size_t outputs) {
  return std::max<size_t>(1, std::min(ThreadsForFiles(options.jobs), outputs));
}

// Workers that take units from the schedule until it is finished or one of them fails.
class PackRun {
 public:
  PackRun(const std::vector<InputFile>& sources, std::vector<OutputStream>& streams,
          PackSchedule& schedule, const PackOptions& options)
      : sources_(sources), streams_(streams), schedule_(schedule), options_(options) {}

  Status Run(size_t jobs, uint64_t chunk, PackProgress progress) {
    progress_ = progress;
    {
      std::vector<std::jthread> workers;
      for (size_t i = 1; i < jobs; ++i) workers.emplace_back([this, chunk] { Work(chunk); });
      Work(chunk);
    }
    if (failure_) return *std::move(failure_);
    return Ok();
  }

  uint64_t read_bytes() const { return read_bytes_; }

 private:
  void Work(uint64_t chunk) {
    std::vector<std::byte> buffer(chunk);
    while (const PackUnit* unit = Next()) {
      const Status status = Copy(*unit, std::span(buffer).first(unit->bytes));
      Finish(*unit, status);
    }
  }

  const PackUnit* Next() {
    std::unique_lock lock(mutex_);
    while (!failure_ && !schedule_.finished()) {
      if (const PackUnit* unit = schedule_.Start()) return unit;
      changed_.wait(lock);
    }
    return nullptr;
  }

  Status Copy(const PackUnit& unit, std::span<std::byte> buffer) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_CHECK(sources_[unit.file].ReadAt(unit.offset, buffer));
    for (const uint32_t target : unit.targets) {
      SHARD_CHECK(streams_[target].Append(sources_[unit.file], unit.offset, buffer));
    }
    return Ok();
  }

  void Finish(const PackUnit& unit, const Status& status) {
    const std::lock_guard lock(mutex_);
    if (!status && !failure_) failure_ = status.error();
    schedule_.Done(unit);
    read_bytes_ += unit.bytes;
    progress_.done_bytes += unit.bytes * unit.targets.size();
    if (options_.progress && status) options_.progress(progress_);
    changed_.notify_all();
  }

  const std::vector<InputFile>& sources_;
  std::vector<OutputStream>& streams_;
  PackSchedule& schedule_;
  const PackOptions& options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> failure_;
  PackProgress progress_;
  uint64_t read_bytes_ = 0;
};

Status CheckSpace(const std::vector<OutputFile>& outputs, const StagingDirectory& staging) {
  uint64_t needed = kSpareBytes;
  for (const OutputFile& output : outputs) {
    std::error_code error;
    const uint64_t present = fs::file_size(staging.path() / output.path, error);
    needed += output.size - (error ? 0 : std::min<uint64_t>(present, output.size));
    needed += output.tensors.size() * kSpareBytesPerTensor;
  }
  SHARD_TRY(const uint64_t available, FreeBytes(staging.path()));
  if (available >= needed) return Ok();
  return Error{Code::kIo,
               Cat(staging.target().string(), ": free space: expected ", needed, " bytes (",
                   FormatBytes(needed), "), found ", available, " (", FormatBytes(available), ")"),
               "free some space or choose another disk; nothing was written"};
}

Result<std::vector<InputFile>> OpenSources(const std::vector<SourceFile>& sources) {
  std::vector<InputFile> files;
  files.reserve(sources.size());
  for (const SourceFile& source : sources) {
    SHARD_TRY(InputFile file, InputFile::Open(source.path));
    if (file.identity() != source.identity) {
      return Error{Code::kCorrupt,
                   Cat(source.path.string(), ": the file was changed after its header was read")};
    }
    files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<OutputStream>> OpenStreams(const std::vector<OutputFile>& outputs,
                                              const fs::path& directory, Journal& journal) {
  std::vector<OutputStream> streams;
  streams.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    SHARD_TRY(OutputStream stream, OutputStream::Open(outputs[i], i, directory, journal));
    streams.push_back(std::move(stream));
  }
  return streams;
}

Status ResumeStreams(std::vector<OutputStream>& streams, size_t jobs, uint64_t chunk) {
  return ParallelFor(streams.size(), jobs, [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    std::vector<std::byte> buffer(chunk);
    return streams[i].Resume(buffer);
  });
}

// All outputs in one go: open, resume, copy, flush.
Result<PackResult> PackAll(const std::vector<SourceFile>& sources,
                           const std::vector<OutputFile>& outputs, StagingDirectory& staging,
                           const PackOptions& options) {
  SHARD_CHECK(CheckSpace(outputs, staging));
  SHARD_TRY(const std::vector<InputFile> files, OpenSources(sources));
  SHARD_TRY(Journal journal, Journal::Open(staging.journal_path()));
  SHARD_TRY(std::vector<OutputStream> streams, OpenStreams(outputs, staging.path(), journal));
  const size_t jobs = JobCount(options, outputs.size());
  const uint64_t chunk = std::clamp(options.memory / (2 * jobs), kSmallestChunk, kChunk);
  SHARD_CHECK(ResumeStreams(streams, jobs, chunk));

  PackResult result;
  PackProgress progress;
  std::vector<size_t> first_tensor;
  for (size_t i = 0; i < streams.size(); ++i) {
    first_tensor.push_back(streams[i].next_tensor());
    progress.total_bytes += outputs[i].size;
    progress.done_bytes += streams[i].position();
    const bool taken_over = streams[i].position() > outputs[i].prefix.size();
    if (staging.resumed() && taken_over) result.resumed_bytes += streams[i].position();
  }
  result.written_bytes = progress.total_bytes - result.resumed_bytes;
  PackSchedule schedule(outputs, first_tensor, chunk);
  PackRun run(files, streams, schedule, options);
  SHARD_CHECK(run.Run(jobs, chunk, progress));
  result.read_bytes = run.read_bytes();

  result.files.resize(streams.size());
  SHARD_CHECK(ParallelFor(streams.size(), jobs, [&](size_t i) -> Status {
    SHARD_TRY(result.files[i], streams[i].Finish());
    return Ok();
  }));
  for (const InputFile& file : files) SHARD_CHECK(file.CheckUnchanged());
  return result;
}

}  // namespace

std::string PackIdentity(const std::vector<SourceFile>& sources,
                         const std::vector<OutputFile>& outputs) {
  Sha256 hash;
  const auto add = [&](const std::string& text) {
    hash.Update(std::as_bytes(std::span(text.data(), text.size())));
  };
  for (const SourceFile& file : sources) {
    const FileIdentity& id = file.identity;
    add(Cat(file.name, "\n", id.device, " ", id.inode, " ", id.size, " ", id.modified_ns, " ",
            id.changed_ns, "\n", file.header_sha256, "\n"));
  }
  for (const OutputFile& output : outputs) {
    add(Cat(output.path, "\n", output.size, "\n", output.prefix));
    for (const OutputTensor& tensor : output.tensors) {
      for (const SourceRange& range : tensor.sources) {
        add(Cat(range.file, " ", range.offset, " ", range.bytes, "\n"));
      }
    }
  }
  return hash.Finish();
}

Result<PackResult> Pack(const std::vector<SourceFile>& sources,
                        const std::vector<OutputFile>& outputs, StagingDirectory& staging,
                        const PackOptions& options) {
  Result<PackResult> result = PackAll(sources, outputs, staging, options);
  if (!result && options.keep_partial) staging.Keep();
  if (!result && result.error().code == Code::kInterrupted) {
    Error error = std::move(result).error();
    error.hint = Cat("what was written is kept in ", staging.target().string(),
                     ".partial; run the same command again to go on from there");
    return error;
  }
  return result;
}

}  // namespace shard
