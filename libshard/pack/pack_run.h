// The threads of a packing run. Each takes a unit, reads it, encodes it if the type changes, and
// appends the result when it is the unit's turn.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/pack/encode_rows.h"
#include "libshard/pack/output_stream.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/pack_units.h"

namespace moepack {

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

}  // namespace moepack
