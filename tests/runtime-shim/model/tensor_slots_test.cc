#include "runtime-shim/model/tensor_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime-shim/devices/executors.h"

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// One row of a type, of zero bytes.
struct SlotsCase {
  explicit SlotsCase(std::string_view type)
      : bytes(quant::FindFormat(type)->block_bytes),
        tensor{
            "blk.0.w", quant::FindFormat(type), {1, quant::FindFormat(type)->block_values}, bytes} {
  }

  std::vector<std::byte> bytes;
  HostTensor tensor;
};

// Nothing is uploaded that the executor could not use later.
TEST(TensorSlots, RefuseATypeThatTheExecutorLacksByName) {
  const auto executor = OpenExecutor("cpu", {.threads = 1});
  ASSERT_TRUE(executor.has_value());
  const std::string path = "model.gguf";
  const SlotsCase known("iq1_s"), unknown("q1_0");
  const std::vector<HostTensor> tensors = {known.tensor};
  TensorSlots good(path, tensors, **executor);
  EXPECT_EQ(good.Required("blk.0.w", {1, 256}).format, known.tensor.format);
  EXPECT_EQ(good.bytes(), known.bytes.size());

  const std::vector<HostTensor> strange = {unknown.tensor};
  TensorSlots bad(path, strange, **executor);
  EXPECT_EQ(bad.Required("blk.0.w", {1, 128}).buffer, nullptr);
  EXPECT_EQ(bad.bytes(), 0u);
  EXPECT_THAT(bad.TakeBuffers(), IsEmpty());
  const Status status = bad.Finish();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message,
              HasSubstr("model.gguf: \"blk.0.w\": executor cpu has no q1_0"));
}

// A tensor of two rows of two numbers.
template <class Number>
struct FourNumbers {
  FourNumbers(std::string_view type, std::vector<Number> values)
      : numbers(std::move(values)),
        tensors{{"t", quant::FindFormat(type), {2, 2}, std::as_bytes(std::span(numbers))}} {}

  std::vector<Number> numbers;
  std::vector<HostTensor> tensors;
};

TEST(TensorSlots, TakeIdsBelowAnEnd) {
  const auto executor = OpenExecutor("cpu", {.threads = 1});
  const std::string path = "model.gguf";
  const FourNumbers<int32_t> ids("i32", {3, 0, 2, 3}), negative("i32", {3, 0, -1, 3});
  TensorSlots good(path, ids.tensors, **executor);
  EXPECT_THAT(good.Ids("t", {2, 2}, 4), ElementsAre(3, 0, 2, 3));
  EXPECT_TRUE(good.Finish());
  TensorSlots high(path, ids.tensors, **executor);
  EXPECT_THAT(high.Ids("t", {2, 2}, 3), IsEmpty());
  EXPECT_EQ(high.Finish().error().message, "model.gguf: \"t\": expected numbers below 3, found 3");
  TensorSlots low(path, negative.tensors, **executor);
  EXPECT_THAT(low.Ids("t", {2, 2}, 4), IsEmpty());
  EXPECT_EQ(low.Finish().error().message, "model.gguf: \"t\": expected numbers below 4, found -1");
  const FourNumbers<float> floats("f32", {3, 0, 2, 3});
  TensorSlots other(path, floats.tensors, **executor);
  EXPECT_THAT(other.Ids("t", {2, 2}, 4), IsEmpty());
  EXPECT_EQ(other.Finish().error().message, "model.gguf: \"t\": expected i32, found f32");
  TensorSlots absent(path, {}, **executor);
  EXPECT_THAT(absent.Ids("t", {2, 2}, 4), IsEmpty());
  EXPECT_EQ(absent.Finish().error().message,
            "model.gguf: \"t\": expected a matrix of 2 x 2, found no such tensor");
}

TEST(TensorSlots, DecodeAMatrixOfAnyType) {
  const auto executor = OpenExecutor("cpu", {.threads = 1});
  const std::string path = "model.gguf";
  const FourNumbers<uint16_t> halves("bf16", {0x3f80, 0x4000, 0xbf80, 0});
  TensorSlots good(path, halves.tensors, **executor);
  EXPECT_THAT(good.Decoded("t", {2, 2}), ElementsAre(1, 2, -1, 0));
  EXPECT_TRUE(good.Finish());
  const FourNumbers<int32_t> ids("i32", {3, 0, 2, 3});
  TensorSlots bad(path, ids.tensors, **executor);
  EXPECT_THAT(bad.Decoded("t", {2, 2}), IsEmpty());
  EXPECT_EQ(bad.Finish().error().message,
            "model.gguf: \"t\": expected a type that can be decoded, found i32");
}

}  // namespace
}  // namespace moepack::runtime
