#include "libshard/pack/pack_run.h"

#include <chrono>

#include "libshard/base/parallel.h"
#include "libshard/convert/row_reader.h"
#include "libshard/pack/fetch.h"

namespace moepack {
namespace {

// How long a waiting worker sleeps before it checks for an interrupt: a signal handler sets a flag,
// and cannot wake anybody.
constexpr std::chrono::milliseconds kLookAround{200};

}  // namespace

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

}  // namespace moepack
