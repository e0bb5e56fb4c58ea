#include "runtime-shim/model/tensor_slots.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// Matrix counts rows and columns in 32 bits, and loops that advance by several rows count past the
// end, so half the range is kept free.
constexpr uint64_t kMostRows = std::numeric_limits<int32_t>::max();

MatrixShape ShapeOf(const HostTensor& tensor) {
  MatrixShape shape{1, tensor.shape.empty() ? 1 : tensor.shape.back()};
  for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) shape.rows *= tensor.shape[axis];
  return shape;
}

std::string Text(MatrixShape shape) {
  const auto number = [](uint64_t value) { return value == 0 ? std::string("any") : Cat(value); };
  return Cat(number(shape.rows), " x ", number(shape.columns));
}

bool Fits(MatrixShape wanted, MatrixShape found) {
  return (wanted.rows == 0 || wanted.rows == found.rows) &&
         (wanted.columns == 0 || wanted.columns == found.columns);
}

}  // namespace

TensorSlots::TensorSlots(const std::string& path, std::span<const HostTensor> tensors,
                         Executor& executor)
    : path_(path), executor_(executor) {
  for (const HostTensor& tensor : tensors) tensors_.emplace(tensor.name, &tensor);
}

void TensorSlots::Refuse(const std::string& name, const std::string& expected,
                         const std::string& found) {
  if (error_.has_value()) return;
  error_ = Error{Code::kCorrupt,
                 Cat(path_, ": ", Quoted(name), ": expected ", expected, ", found ", found)};
}

const HostTensor* TensorSlots::Take(const std::string& name, MatrixShape shape) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return nullptr;
  taken_.insert(name);
  const HostTensor& tensor = *found->second;
  const MatrixShape own = ShapeOf(tensor);
  if (!Fits(shape, own)) {
    Refuse(name, Cat("a matrix of ", Text(shape)), Text(own));
    return nullptr;
  }
  if (own.rows > kMostRows || own.columns > kMostRows) {
    Refuse(name, Cat("at most ", kMostRows, " rows and columns"), Text(own));
    return nullptr;
  }
  if (tensor.format->BytesFor(own.columns).value_or(0) * own.rows != tensor.bytes.size()) {
    Refuse(name, Cat("whole rows of ", tensor.format->name), Cat(tensor.bytes.size(), " bytes"));
    return nullptr;
  }
  return &tensor;
}

Matrix TensorSlots::Upload(const HostTensor& tensor) {
  if (error_.has_value()) return {};
  auto buffer = executor_.Load(tensor.bytes);
  if (!buffer) {
    error_ = std::move(buffer).error().Within(Cat(path_, ": ", Quoted(tensor.name)));
    return {};
  }
  const MatrixShape shape = ShapeOf(tensor);
  buffers_.push_back(std::move(*buffer));
  bytes_ += tensor.bytes.size();
  return {buffers_.back().get(), 0, tensor.format, static_cast<uint32_t>(shape.rows),
          static_cast<uint32_t>(shape.columns)};
}

Matrix TensorSlots::Optional(const std::string& name, MatrixShape shape) {
  const HostTensor* tensor = Take(name, shape);
  if (tensor == nullptr || error_.has_value()) return {};
  if (!executor_.Supports(tensor->format)) {
    error_ = Error{Code::kUnsupported, Cat(path_, ": ", Quoted(name), ": executor ",
                                           executor_.name(), " has no ", tensor->format->name)};
    return {};
  }
  return Upload(*tensor);
}

Matrix TensorSlots::Required(const std::string& name, MatrixShape shape) {
  if (!Has(name)) Refuse(name, Cat("a matrix of ", Text(shape)), "no such tensor");
  return Optional(name, shape);
}

Matrix TensorSlots::OptionalVector(const std::string& name, uint64_t width) {
  const HostTensor* tensor = Take(name, {1, width});
  if (tensor == nullptr || error_.has_value()) return {};
  if (tensor->format->name != "f32") {
    Refuse(name, "f32", std::string(tensor->format->name));
    return {};
  }
  return Upload(*tensor);
}

Matrix TensorSlots::RequiredVector(const std::string& name, uint64_t width) {
  if (!Has(name)) Refuse(name, Cat("a vector of ", width), "no such tensor");
  return OptionalVector(name, width);
}

std::vector<float> TensorSlots::Values(const std::string& name, MatrixShape shape) {
  if (shape.rows > 1 && !Has(name))
    Refuse(name, Cat("a matrix of ", Text(shape)), "no such tensor");
  const HostTensor* tensor = Take(name, shape);
  if (tensor == nullptr || error_.has_value()) return {};
  if (tensor->format->name != "f32") {
    Refuse(name, "f32", std::string(tensor->format->name));
    return {};
  }
  std::vector<float> values(shape.rows * shape.columns);
  std::memcpy(values.data(), tensor->bytes.whole().data(), tensor->bytes.size());
  return values;
}

std::vector<float> TensorSlots::Decoded(const std::string& name, MatrixShape shape) {
  if (!Has(name)) Refuse(name, Cat("a matrix of ", Text(shape)), "no such tensor");
  const HostTensor* tensor = Take(name, shape);
  if (tensor == nullptr || error_.has_value()) return {};
  if (tensor->format->decode == nullptr) {
    Refuse(name, "a type that can be decoded", std::string(tensor->format->name));
    return {};
  }
  std::vector<float> values(shape.rows * shape.columns);
  const uint64_t row = *tensor->format->BytesFor(shape.columns);
  for (uint64_t i = 0; i < shape.rows; ++i) {
    tensor->format->decode(tensor->bytes.Part(i * row, row),
                           std::span(values).subspan(i * shape.columns, shape.columns));
  }
  return values;
}

std::vector<uint32_t> TensorSlots::Ids(const std::string& name, MatrixShape shape, uint32_t end) {
  if (!Has(name)) Refuse(name, Cat("a matrix of ", Text(shape)), "no such tensor");
  const HostTensor* tensor = Take(name, shape);
  if (tensor == nullptr || error_.has_value()) return {};
  if (tensor->format->name != "i32") {
    Refuse(name, "i32", std::string(tensor->format->name));
    return {};
  }
  std::vector<int32_t> values(tensor->bytes.size() / sizeof(int32_t));
  std::memcpy(values.data(), tensor->bytes.whole().data(), tensor->bytes.size());
  for (const int32_t value : values) {
    if (value < 0 || static_cast<uint32_t>(value) >= end) {
      Refuse(name, Cat("numbers below ", end), Cat(value));
      return {};
    }
  }
  return {values.begin(), values.end()};
}

Status TensorSlots::Finish() const {
  if (error_.has_value()) return *error_;
  for (const auto& [name, tensor] : tensors_) {
    if (taken_.count(name) > 0) continue;
    return Error{Code::kUnsupported, Cat(path_, ": ", Quoted(name),
                                         ": expected only tensors that the family's forward "
                                         "pass uses, found this one")};
  }
  return Ok();
}

}  // namespace moepack::runtime
