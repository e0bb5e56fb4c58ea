// What the operands of an executor's interface are on the device.
#pragma once

#include <cstdint>

#include "runtime-shim/cuda/memory.h"
#include "runtime-shim/cuda/products.h"
#include "runtime-shim/executor/dense_algebra.h"
#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime::cuda {

inline uint8_t* DataOf(const Buffer* buffer) {
  return static_cast<const DeviceBuffer*>(buffer)->data();
}

inline Floats FloatsOf(const Rows& rows) {
  auto* const data = reinterpret_cast<float*>(DataOf(rows.buffer));
  return {data + rows.offset, rows.stride, rows.count, rows.width};
}

inline DoubleValues DoublesOf(const Doubles& rows) {
  auto* const data = reinterpret_cast<double*>(DataOf(rows.buffer));
  return {data + rows.offset, rows.stride, rows.count, rows.width};
}

}  // namespace moepack::runtime::cuda
