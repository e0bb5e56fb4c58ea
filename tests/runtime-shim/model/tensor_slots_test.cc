#include "runtime-shim/model/tensor_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime-shim/devices/executors.h"

namespace moepack::runtime {
namespace {

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

}  // namespace
}  // namespace moepack::runtime
