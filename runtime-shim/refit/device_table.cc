#include "runtime-shim/refit/device_table.h"

namespace moepack::runtime {

Status DeviceTable::Grow(Executor& executor, uint64_t bytes) {
  if (buffer_ != nullptr && buffer_->bytes() >= bytes) return Ok();
  buffer_.reset();
  SHARD_TRY(buffer_, executor.Allocate(bytes));
  return Ok();
}

Result<Rows> DeviceTable::Take(Executor& executor, size_t count, size_t width) {
  SHARD_CHECK(Grow(executor, uint64_t{count} * width * sizeof(float)));
  return Rows{buffer_.get(), 0, static_cast<uint32_t>(count), static_cast<uint32_t>(width),
              static_cast<uint32_t>(width)};
}

Result<Doubles> DeviceTable::TakeDoubles(Executor& executor, size_t count, size_t width) {
  SHARD_CHECK(Grow(executor, uint64_t{count} * width * sizeof(double)));
  return Doubles{buffer_.get(), 0, static_cast<uint32_t>(count), static_cast<uint32_t>(width),
                 static_cast<uint32_t>(width)};
}

}  // namespace moepack::runtime
