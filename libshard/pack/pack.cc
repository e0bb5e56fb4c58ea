#include "libshard/pack/pack.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/byte_source.h"
#include "libshard/base/parallel.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/row_reader.h"
#include "libshard/pack/encode_rows.h"
#include "libshard/pack/fetch.h"
#include "libshard/pack/output_stream.h"
#include "libshard/pack/pack_units.h"

namespace moepack {
namespace {

// The threads of a packing run. Each takes a unit, reads it, encodes it if the type changes, and
// appends the result when it is the unit's turn.

// Runs the workers until the schedule is finished or one of them fails. Borrows everything it is
// given.
class PackRun {
 public:
  PackRun(const std::vector<ByteSourcePtr>& sources, std::vector<OutputStream>& streams,
          PackSchedule& schedule, const PackOptions& options)
      : sources_(sources), streams_(streams), schedule_(schedule), options_(options) {}

  // Runs on `jobs` threads, including the caller's, and continues counting progress from `done`
  // bytes. If one of them throws, Run rethrows the exception after all have ended.
  Status Run(size_t jobs, uint64_t done, uint64_t total);

  uint64_t read_bytes() const { return read_bytes_; }
  // How many values of each output tensor were not finite, for the tensors that have any.
  const std::map<std::string, uint64_t>& not_finite() const { return not_finite_; }
  const GridReport& grid() const { return grid_; }

 private:
  // What one thread keeps from unit to unit.
  struct Worker {
    std::vector<std::byte> read, encoded;
    std::vector<SourceRange> ranges;  // of a reader
    RowEncoder encoder;
    ValueReport report;  // of the current unit
  };

  void Work();
  void Stop();
  bool Stopped();
  const PackUnit* Next();
  Status Process(const PackUnit& unit, Worker& worker);
  Status Prepare(const PackUnit& unit, Worker& worker) const;
  bool WaitForTurn(const PackUnit& unit);
  static std::span<const std::byte> Made(const PackUnit& unit, const Worker& worker);
  Status Append(const PackUnit& unit, const Worker& worker);
  void Finish(const PackUnit& unit, const Status& status, const Worker& worker);

  const std::vector<ByteSourcePtr>& sources_;
  std::vector<OutputStream>& streams_;
  PackSchedule& schedule_;
  const PackOptions& options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> failure_;
  // after an error, an interrupt or an exception; then nobody may wait for a turn
  bool stopped_ = false;
  uint64_t done_ = 0, total_ = 0, read_bytes_ = 0;
  std::map<std::string, uint64_t> not_finite_;
  GridReport grid_;
};

// How long a waiting worker sleeps before it checks for an interrupt: a signal handler sets a flag,
// and cannot wake anybody.
constexpr std::chrono::milliseconds kLookAround{200};

Status PackRun::Run(size_t jobs, uint64_t done, uint64_t total) {
  done_ = done;
  total_ = total;
  RunOnThreads(
      jobs, [this] { Work(); }, [this] { Stop(); });
  if (failure_) return *std::move(failure_);
  // Without an error only an interrupt leaves units undone.
  return schedule_.finished() ? Ok() : CheckInterrupt();
}

void PackRun::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

// REQUIRES: mutex_ is held.
bool PackRun::Stopped() {
  if (InterruptRequested().load(std::memory_order_relaxed)) stopped_ = true;
  return stopped_;
}

void PackRun::Work() {
  Worker worker;
  while (const PackUnit* unit = Next()) Finish(*unit, Process(*unit, worker), worker);
}

const PackUnit* PackRun::Next() {
  std::unique_lock lock(mutex_);
  while (!Stopped() && !schedule_.finished()) {
    if (const PackUnit* unit = schedule_.Start()) return unit;
    changed_.wait_for(lock, kLookAround);
  }
  return nullptr;
}

Status PackRun::Process(const PackUnit& unit, Worker& worker) {
  SHARD_CHECK(CheckInterrupt());
  SHARD_CHECK(Prepare(unit, worker));
  if (!WaitForTurn(unit)) return Ok();
  return Append(unit, worker);
}

// Does everything that can be done before it is the unit's turn to be written.
Status PackRun::Prepare(const PackUnit& unit, Worker& worker) const {
  worker.report = {};
  const Encoding* encoding = unit.tensor != nullptr ? unit.tensor->encoding.get() : nullptr;
  const bool made = encoding != nullptr && encoding->reader != nullptr;
  worker.ranges.clear();
  if (made) encoding->reader->AddReads(unit.rows.first, unit.rows.count, worker.ranges);
  SHARD_CHECK(ReadRanges(sources_, made ? worker.ranges : unit.reads, worker.read));
  if (made) {
    SHARD_TRY(worker.report,
              worker.encoder.EncodeRead(*unit.tensor, unit.rows, worker.read, worker.encoded));
  } else if (encoding != nullptr) {
    worker.report =
        worker.encoder.Encode(*unit.tensor, unit.first_row, worker.read, worker.encoded);
  }
  if (unit.copied != nullptr) {
    worker.report.not_finite = CountNotFinite(unit.copied->entry.format, worker.read);
  }
  return Ok();
}

// Returns false if the run was stopped, because the turn may then never come.
bool PackRun::WaitForTurn(const PackUnit& unit) {
  std::unique_lock lock(mutex_);
  while (!Stopped() && !schedule_.IsTurn(unit)) changed_.wait_for(lock, kLookAround);
  return !stopped_;
}

// Returns the bytes that go to the outputs.
std::span<const std::byte> PackRun::Made(const PackUnit& unit, const Worker& worker) {
  if (unit.tensor == nullptr) return worker.read;
  if (unit.tensor->encoding) return worker.encoded;
  return std::as_bytes(std::span(unit.tensor->literal->data(), unit.tensor->literal->size()));
}

Status PackRun::Append(const PackUnit& unit, const Worker& worker) {
  for (const uint32_t target : unit.targets) {
    OutputStream& stream = streams_[target];
    // AppendCopy can share the blocks of one range only.
    if (unit.tensor != nullptr || unit.reads.size() > 1) {
      SHARD_CHECK(stream.Append(Made(unit, worker)));
      continue;
    }
    const SourceRange& range = unit.reads[0];
    SHARD_CHECK(stream.AppendCopy(*sources_[range.file], range.offset, worker.read));
  }
  return Ok();
}

void PackRun::Finish(const PackUnit& unit, const Status& status, const Worker& worker) {
  const std::lock_guard lock(mutex_);
  if (!status) {
    stopped_ = true;
    if (!failure_) failure_ = status.error();
  }
  // After a stop the unit may not have been written (Process), so it does not count.
  if (!stopped_) {
    schedule_.Done(unit);
    read_bytes_ += worker.read.size();
    done_ += Made(unit, worker).size() * unit.targets.size();
    grid_.Add(worker.report.grid);
    if (worker.report.not_finite > 0) {
      const OutputTensor* tensor = unit.tensor != nullptr ? unit.tensor : unit.copied;
      not_finite_[tensor->entry.name] += worker.report.not_finite;
    }
    if (options_.progress) options_.progress(done_, total_);
  }
  changed_.notify_all();
}

// A chunk is large enough to read at full disk speed, and small enough to stay in the second-level
// cache between reading, hashing and writing.
constexpr uint64_t kChunk = 1u << 20;
constexpr uint64_t kSmallestChunk = 64u << 10;
// For sources where every read is a request: fewer and longer reads, several at once.
constexpr uint64_t kRequestChunk = 8u << 20;
constexpr size_t kRequests = 8;
// If a tensor's rows run across its source, reads are long only if many rows are made at once.
constexpr uint64_t kLargestScattered = 8u << 20;
// A chunk consists of whole pages, and so of whole values of every plain type.
constexpr uint64_t kPage = 4096;
// Room for directories and the README, and for each tensor's lines in the journal and manifest.
constexpr uint64_t kSpareBytes = 256u << 10, kSpareBytesPerTensor = 1u << 10;

bool Encodes(const std::vector<OutputFile>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(), [](const OutputFile& file) {
    return std::any_of(file.tensors.begin(), file.tensors.end(),
                       [](const OutputTensor& tensor) { return tensor.encoding != nullptr; });
  });
}

// Whether reading means waiting for another machine.
bool AreFar(const std::vector<ByteSourcePtr>& sources) {
  return std::any_of(sources.begin(), sources.end(),
                     [](const ByteSourcePtr& source) { return source->far(); });
}

// Copying keeps at most one thread per output busy, because each output is written in order.
// Encoding keeps any number busy, and so does waiting for a far source: some threads wait for
// answers while others encode.
size_t JobCount(const PackOptions& options, const std::vector<OutputFile>& outputs, bool far) {
  const size_t threads = ThreadsForFiles(options.jobs);
  if (far) return options.jobs > 0 ? threads : threads + kRequests;
  return std::max<size_t>(1, Encodes(outputs) ? threads : std::min(threads, outputs.size()));
}

// Memory is divided by four: each worker has a buffer for what it read and one for what it made
// from it, and the page cache may hold the same amount again that is not on disk yet. Workers that
// read from far sources share all of it, because the longer a request is, the less its latency
// matters.
UnitSize SizeOfUnits(const PackOptions& options, size_t jobs, bool far) {
  const uint64_t share = std::max(options.memory / ((far ? 1 : 4) * jobs), kSmallestChunk);
  return {std::min(share, far ? kRequestChunk : kChunk) / kPage * kPage,
          std::min(share, kLargestScattered), far};
}

Status CheckSpace(const std::vector<OutputFile>& outputs, const StagingDirectory& staging,
                  uint64_t copied_later) {
  uint64_t needed = kSpareBytes + copied_later;
  for (const OutputFile& output : outputs) {
    std::error_code error;
    const uint64_t present = fs::file_size(staging.path() / output.path, error);
    needed += output.size - (error ? 0 : std::min<uint64_t>(present, output.size));
    needed += output.tensors.size() * kSpareBytesPerTensor;
  }
  SHARD_TRY(const uint64_t available, FreeBytes(staging.path()));
  if (available >= needed) return Ok();
  return Error{Code::kIo,
               Cat(staging.target().string(), ": free space: expected ", ExactBytes(needed),
                   ", found ", ExactBytes(available)),
               staging.resumed()
                   ? Cat("free some space; what an earlier run wrote is kept in ",
                         staging.kept_in().string(), ": the same command resumes from there")
                   : Cat("free some space or choose another disk; nothing was written to ",
                         staging.target().string())};
}

Result<std::vector<ByteSourcePtr>> OpenSources(const std::vector<SourceFile>& sources) {
  std::vector<ByteSourcePtr> files;
  files.reserve(sources.size());
  for (const SourceFile& source : sources) {
    SHARD_TRY(ByteSourcePtr file, OpenUnchanged(source));
    files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<OutputStream>> OpenStreams(const std::vector<OutputFile>& outputs,
                                              const InsideDirectory& directory, Journal& journal) {
  std::vector<OutputStream> streams;
  streams.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    SHARD_TRY(OutputStream stream, OutputStream::Open(outputs[i], i, directory, journal));
    streams.push_back(std::move(stream));
  }
  return streams;
}

Status ResumeStreams(std::vector<OutputStream>& streams, size_t jobs, uint64_t chunk,
                     uint64_t cell_bytes) {
  return ParallelFor(streams.size(), jobs, [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    std::vector<std::byte> buffer(chunk);
    return streams[i].Resume(buffer, cell_bytes);
  });
}

// A run whose outputs have their headers and whatever an earlier run had written.
struct StartedRun {
  size_t jobs = 0;
  UnitSize size;
  std::vector<size_t> first_tensor;  // of each output that is still to be written
  uint64_t done_bytes = 0, total_bytes = 0;
  PackResult result;
};

Result<StartedRun> StartRun(const std::vector<OutputFile>& outputs,
                            std::vector<OutputStream>& streams, const PackOptions& options,
                            bool far) {
  StartedRun run;
  run.jobs = JobCount(options, outputs, far);
  run.size = SizeOfUnits(options, run.jobs, far);
  SHARD_CHECK(ResumeStreams(streams, run.jobs, run.size.chunk, options.cell_bytes));
  for (size_t i = 0; i < streams.size(); ++i) {
    run.first_tensor.push_back(streams[i].next_tensor());
    run.total_bytes += outputs[i].size;
    run.done_bytes += streams[i].position();
    const bool taken_over = streams[i].position() > outputs[i].prefix.size();
    if (taken_over && streams[i].resumed()) run.result.resumed_bytes += streams[i].position();
  }
  run.result.written_bytes = run.total_bytes - run.result.resumed_bytes;
  return run;
}

Result<PackResult> FinishRun(StartedRun started, const std::vector<ByteSourcePtr>& files,
                             const std::vector<OutputFile>& outputs,
                             std::vector<OutputStream>& streams, const PackOptions& options) {
  PackResult& result = started.result;
  PackSchedule schedule(outputs, started.first_tensor, started.size);
  PackRun run(files, streams, schedule, options);
  SHARD_CHECK(run.Run(started.jobs, started.done_bytes, started.total_bytes));
  result.read_bytes = run.read_bytes();
  result.not_finite = run.not_finite();
  result.grid = run.grid();
  result.files.resize(streams.size());
  SHARD_CHECK(ParallelFor(streams.size(), started.jobs, [&](size_t i) -> Status {
    SHARD_TRY(result.files[i], streams[i].Finish());
    return Ok();
  }));
  // Sources are checked last, so that a change at any time during the run is noticed. For a far one
  // this is a request, so several are checked at once.
  SHARD_CHECK(ParallelFor(files.size(), AreFar(files) ? kRequests : 1,
                          [&](size_t i) { return files[i]->CheckUnchanged(); }));
  return std::move(result);
}

// Packs all outputs: opens them, resumes, copies or encodes, and flushes. The staging directory
// learns every name first: whatever else an earlier run left there is removed before publishing.
Result<PackResult> PackAll(const std::vector<SourceFile>& sources, std::vector<OutputFile>& outputs,
                           StagingDirectory& staging, const PackOptions& options) {
  SHARD_TRY(const std::vector<ByteSourcePtr> files, OpenSources(sources));
  SHARD_TRY(Journal journal, staging.OpenJournal());
  for (const OutputFile& output : outputs) staging.Expect(output.path);
  SHARD_TRY(std::vector<OutputStream> streams, OpenStreams(outputs, staging.files(), journal));
  SHARD_TRY(StartedRun run, StartRun(outputs, streams, options, AreFar(files)));
  // clear() would keep the memory.
  for (OutputFile& output : outputs) std::string().swap(output.prefix);
  return FinishRun(std::move(run), files, outputs, streams, options);
}

// In an identity, takes the place of a file number for rows made by a reader.
constexpr uint32_t kRowsMark = UINT32_MAX;

}  // namespace

std::string PackIdentity(const std::vector<SourceFile>& sources,
                         const std::vector<OutputFile>& outputs, std::string_view tool_version) {
  Sha256 hash;
  const auto add = [&](const std::string& text) {
    hash.Update(std::as_bytes(std::span(text.data(), text.size())));
  };
  add(Cat("moepack ", tool_version, "\n"));
  for (const SourceFile& file : sources) {
    add(Cat(file.name, "\n", file.identity, "\n", file.header_sha256, "\n"));
  }
  for (const OutputFile& output : outputs) {
    add(Cat(output.path, "\n", output.size, "\n", output.prefix));
    for (const OutputTensor& tensor : output.tensors) {
      for (const SourceRange& range : tensor.sources) {
        add(Cat(range.file, " ", range.offset, " ", range.bytes, "\n"));
      }
      for (const RowRange& range : tensor.rows) {
        add(Cat(kRowsMark, " ", range.first, " ", range.count, "\n"));
      }
      if (tensor.literal) add(*tensor.literal);
      if (!tensor.encoding) continue;
      const Encoding& encoding = *tensor.encoding;
      add(Cat(encoding.from->name, " ", encoding.to->name, " ", encoding.row_values, " ",
              encoding.importance == nullptr ? "" : encoding.importance->digest, "\n"));
      if (encoding.reader == nullptr) continue;
      add(Cat(encoding.reader->Describe(), encoding.repack ? " repacked" : ""));
    }
  }
  return hash.Finish();
}

FetchEstimate EstimateFetch(const std::vector<SourceFile>& sources,
                            const std::vector<OutputFile>& outputs, const PackOptions& options) {
  FetchEstimate estimate;
  const bool far =
      std::any_of(sources.begin(), sources.end(), [](const SourceFile& file) { return file.far; });
  if (!far) return estimate;
  const UnitSize size = SizeOfUnits(options, JobCount(options, outputs, far), far);
  const PackSchedule schedule(outputs, std::vector<size_t>(outputs.size()), size);
  std::vector<SourceRange> ranges;
  for (const PackUnit& unit : schedule.units()) {
    const Encoding* encoding = unit.tensor != nullptr ? unit.tensor->encoding.get() : nullptr;
    ranges = unit.reads;
    if (encoding != nullptr && encoding->reader != nullptr)
      encoding->reader->AddReads(unit.rows.first, unit.rows.count, ranges);
    for (const Fetch& fetch : PlanFetches(ranges)) {
      if (!sources[fetch.file].far) continue;
      estimate.bytes += fetch.bytes;
      ++estimate.requests;
      if (fetch.bytes > estimate.sample.bytes)
        estimate.sample = {fetch.file, fetch.offset, fetch.bytes};
    }
  }
  return estimate;
}

void AddWholeFiles(const std::vector<SourceFile>& sources, FetchEstimate& estimate) {
  for (const SourceFile& source : sources) {
    if (!source.far) continue;
    estimate.bytes += source.size;
    estimate.requests += (source.size + kFarScanStep - 1) / kFarScanStep;
  }
}

Result<std::vector<FileDigests>> DigestOutputs(const std::vector<SourceFile>& sources,
                                               const std::vector<OutputFile>& outputs,
                                               const PackOptions& options) {
  SHARD_TRY(const std::vector<ByteSourcePtr> files, OpenSources(sources));
  std::vector<OutputStream> streams;
  streams.reserve(outputs.size());
  for (const OutputFile& output : outputs) streams.push_back(OutputStream::HashOnly(output));
  SHARD_TRY(StartedRun run, StartRun(outputs, streams, options, AreFar(files)));
  SHARD_TRY(PackResult result, FinishRun(std::move(run), files, outputs, streams, options));
  return std::move(result.files);
}

Result<PackResult> Pack(const std::vector<SourceFile>& sources, std::vector<OutputFile>& outputs,
                        StagingDirectory& staging, const PackOptions& options) {
  if (Status space = CheckSpace(outputs, staging, options.copied_later); !space) {
    // There is nothing to keep but what an earlier run wrote, and that is as good as before.
    if (staging.resumed()) staging.Keep();
    return std::move(space).error();
  }
  Result<PackResult> result = PackAll(sources, outputs, staging, options);
  if (!result && options.keep_partial) staging.Keep();
  if (!result && result.error().code == Code::kInterrupted) {
    Error error = std::move(result).error();
    error.hint = Cat("what was written is kept in ", staging.kept_in().string(),
                     "; run the same command again to resume");
    return error;
  }
  return result;
}

}  // namespace moepack
