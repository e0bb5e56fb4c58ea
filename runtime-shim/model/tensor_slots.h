// A model's tensors on their way to an executor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Rows and columns of a matrix. For a tensor with more than two dimensions, all but the last make
// up the rows. 0: any number.
struct MatrixShape {
  uint64_t rows = 0, columns = 0;
};

// Takes tensors by name from a list, checks their shapes and uploads them. A tensor that nothing
// took is an error at the end. Keeps the first error, after which nothing more is uploaded.
class TensorSlots {
 public:
  // Borrows all arguments. `path` names the file in errors.
  TensorSlots(const std::string& path, std::span<const HostTensor> tensors, Executor& executor);

  bool Has(const std::string& name) const { return tensors_.count(name) > 0; }
  // Takes a matrix; the result is empty if it is absent.
  Matrix Optional(const std::string& name, MatrixShape shape);
  Matrix Required(const std::string& name, MatrixShape shape);
  // Takes a tensor that is not used; it may be absent.
  void Ignore(const std::string& name) { taken_.insert(name); }
  // Takes F32 values to the host; empty if the tensor is absent.
  std::vector<float> Values(const std::string& name, uint64_t count) {
    return Values(name, {1, count});
  }
  // The same for a matrix, row after row, which must exist.
  std::vector<float> Values(const std::string& name, MatrixShape shape);
  // The same for a matrix of any type, which must exist.
  std::vector<float> Decoded(const std::string& name, MatrixShape shape);
  // Takes a matrix of I32, row after row, whose values are below `end`; it must exist.
  std::vector<uint32_t> Ids(const std::string& name, MatrixShape shape, uint32_t end);
  // Takes a vector that must be F32: a norm or bias.
  Matrix OptionalVector(const std::string& name, uint64_t width);
  Matrix RequiredVector(const std::string& name, uint64_t width);

  void Refuse(const std::string& name, const std::string& expected, const std::string& found);
  // Returns the first error, or kUnsupported for a tensor that nothing took.
  Status Finish() const;
  bool failed() const { return error_.has_value(); }
  std::vector<BufferPtr> TakeBuffers() { return std::move(buffers_); }
  uint64_t bytes() const { return bytes_; }

 private:
  const HostTensor* Take(const std::string& name, MatrixShape shape);
  Matrix Upload(const HostTensor& tensor);

  const std::string& path_;
  Executor& executor_;
  std::map<std::string, const HostTensor*, std::less<>> tensors_;
  std::set<std::string, std::less<>> taken_;
  std::vector<BufferPtr> buffers_;
  uint64_t bytes_ = 0;
  std::optional<Error> error_;
};

}  // namespace moepack::runtime
