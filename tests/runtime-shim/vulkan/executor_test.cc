// What only the Vulkan executor has: choice of a device, limits of bindings and dispatches, and the
// validation layer. The conformance suite tests the operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "runtime-shim/vulkan/vulkan.h"
#include "runtime-shim/vulkan/vulkan_executor.h"

namespace moepack::runtime::vulkan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// An environment variable for the duration of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class VulkanDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    auto executor = VulkanExecutor::Open({.validation = true});
    if (!executor) GTEST_SKIP() << "SKIPPED executor vulkan: " << executor.error().message;
    executor_ = std::move(*executor);
  }

  BufferPtr Allocate(uint64_t values) {
    auto buffer = executor_->Allocate(values * sizeof(float));
    EXPECT_TRUE(buffer.has_value()) << buffer.error().message;
    return std::move(*buffer);
  }

  std::unique_ptr<VulkanExecutor> executor_;
};

TEST_F(VulkanDevice, IsListedUnderItsNumber) {
  EXPECT_THAT(VulkanDevices(), StartsWith("0: " + executor_->description() + "\n"));
  EXPECT_THAT(executor_->description(), HasSubstr(", Vulkan 1."));
  EXPECT_GT(executor_->available(), 0u);
}

TEST_F(VulkanDevice, IsUnavailableUnderAnUnknownNumber) {
  const auto executor = OpenVulkan({.device = 99});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnavailable);
  EXPECT_THAT(executor.error().message, HasSubstr("found 99"));
}

TEST(VulkanDriver, ThatIsMissingIsUnavailable) {
  const Variable files("VK_ICD_FILENAMES", "/nonexistent");
  const Variable newer("VK_DRIVER_FILES", "/nonexistent");
  const auto executor = OpenVulkan({});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnavailable);
  EXPECT_THAT(executor.error().message, HasSubstr("no driver was found"));
  EXPECT_EQ(VulkanDevices(), "");
}

TEST(VulkanValidation, ThatIsMissingIsUnavailable) {
  const Variable layers("VK_LAYER_PATH", "/nonexistent");
  const auto executor = OpenVulkan({.validation = true});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnavailable);
  EXPECT_THAT(executor.error().message, HasSubstr("the validation layer is not installed"));
}

TEST_F(VulkanDevice, RefusesAnAllocationThatIsTooLargeWithItsBytes) {
  const auto buffer = executor_->Allocate(uint64_t{1} << 60);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, Code::kUnavailable);
  EXPECT_THAT(buffer.error().message, HasSubstr("1152921504606846976 bytes"));
  EXPECT_TRUE(executor_->Finish().has_value());
}

TEST_F(VulkanDevice, CountsWhatItAllocated) {
  const uint64_t before = executor_->available();
  BufferPtr buffer = Allocate(1 << 20);
  EXPECT_LE(executor_->available() + (4 << 20), before);
  buffer.reset();
  // A driver may also give back what it took for itself: NVIDIA's did.
  EXPECT_GE(executor_->available(), before);
}

TEST_F(VulkanDevice, PassesOnMessagesOfTheValidationLayer) {
  // A wrong structure type, which drivers do not check.
  VkFenceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  VkDevice const device = executor_->core().device->handle();
  VkFence fence = VK_NULL_HANDLE;
  vkCreateFence(device, &info, nullptr, &fence);
  vkDestroyFence(device, fence, nullptr);
  const auto status = executor_->Finish();
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, StartsWith("vulkan: validation layer: "));
  EXPECT_THAT(status.error().message, HasSubstr("VUID-VkFenceCreateInfo-sType"));
  EXPECT_TRUE(executor_->Finish().has_value()) << "the error was reported twice";
}

TEST_F(VulkanDevice, RefusesRowsThatOneBindingCannotHold) {
  const uint64_t limit = executor_->core().device->limits().binding_bytes;
  if (limit > uint64_t{1} << 28) GTEST_SKIP() << "a binding holds " << limit << " bytes";
  const auto width = static_cast<uint32_t>(limit / 4 + 1);
  const BufferPtr buffer = Allocate(width);
  executor_->Scale({buffer.get(), 0, 1, width, width}, 2);
  const auto status = executor_->Finish();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("in one binding"));
  EXPECT_TRUE(executor_->Finish().has_value()) << "the error was reported twice";
}

TEST_F(VulkanDevice, RunsMoreGroupsThanOneDispatchDimensionAllows) {
  // 128 values in a group, 65,535 groups in a dimension at least.
  constexpr uint32_t total = 128 * 65535 + 1000;
  const BufferPtr buffer = Allocate(total);
  const Rows rows = {buffer.get(), 0, 1, total, total};
  std::vector<float> values(total, 1.5f);
  executor_->Write(values, rows);
  executor_->Scale(rows, 2);
  const auto status = executor_->Read(rows, values);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(values, std::vector<float>(total, 3.0f));
}

// Weights larger than a binding are read slice by slice.
TEST_F(VulkanDevice, SplitsWeightsThatOneBindingCannotHold) {
  const uint64_t limit = executor_->core().device->limits().binding_bytes;
  if (limit > uint64_t{1} << 28) GTEST_SKIP() << "a binding holds " << limit << " bytes";
  constexpr uint32_t columns = 4096;
  const auto row_count = static_cast<uint32_t>(limit / columns + 3);
  // F8_E4M3: 0x38 is 1. One in the first column of each of the last rows, two in the first.
  std::vector<std::byte> bytes(uint64_t{row_count} * columns);
  bytes[0] = std::byte{0x40};
  for (uint32_t i = 1; i <= 4; ++i) bytes[uint64_t{row_count - i} * columns + i] = std::byte{0x38};
  auto loaded = executor_->Load(bytes);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  const Matrix weights = {loaded->get(), 0, quant::FindFormat("f8_e4m3"), row_count, columns};

  const BufferPtr buffer = Allocate(3 * columns + row_count);
  const Rows x = {buffer.get(), 0, 1, columns, columns};
  const Rows embedded = {buffer.get(), columns, 2, columns, columns};
  const Rows y = {buffer.get(), 3 * columns, 1, row_count, row_count};
  std::vector<float> inputs(columns, 3.0f), outputs(row_count), values(2 * columns);
  executor_->Write(inputs, x);
  executor_->MatMul(weights, x, y);
  executor_->Embed(weights, std::vector<uint32_t>{row_count - 2, 0}, embedded);
  ASSERT_TRUE(executor_->Read(y, outputs).has_value());
  ASSERT_TRUE(executor_->Read(embedded, values).has_value());
  EXPECT_EQ(outputs[0], 6);
  EXPECT_EQ(outputs[1], 0);
  EXPECT_EQ(outputs[row_count - 4], 3);
  EXPECT_EQ(outputs[row_count - 1], 3);
  EXPECT_EQ(values[2], 1);
  EXPECT_EQ(values[columns], 2);
}

// Frames end at a number of operations and at the size of their staging memory.
TEST_F(VulkanDevice, RunsManySmallOperationsInOrder) {
  const BufferPtr buffer = Allocate(40000);
  const Rows x = {buffer.get(), 0, 40000, 1, 1};
  std::vector<float> values(40000, 1.0f);
  executor_->Write(values, x);
  for (int i = 0; i < 700; ++i) {
    executor_->ScaleRows(x, values);
    executor_->Add(x, x, i % 2 == 0 ? 1.0f : -0.5f);
  }
  ASSERT_TRUE(executor_->Read(x, values).has_value());
  EXPECT_EQ(values, std::vector<float>(40000, 1.0f));
}

TEST_F(VulkanDevice, MovesRowsLargerThanItsStagingMemory) {
  // With gaps between them: many rows, and rows each of which is too large.
  for (const uint32_t width : {1000u, static_cast<uint32_t>(kStagingBytes / 4 + 77)}) {
    const uint32_t count = width == 1000 ? 5000 : 2;
    const BufferPtr buffer = Allocate(uint64_t{count} * (width + 3));
    const Rows rows = {buffer.get(), 1, count, width, width + 3};
    std::vector<float> values(uint64_t{count} * width), found(values.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 100003);
    executor_->Write(values, rows);
    ASSERT_TRUE(executor_->Read(rows, found).has_value());
    EXPECT_TRUE(found == values) << "rows of " << width;
    found.resize(3);
    ASSERT_TRUE(executor_->Read({buffer.get(), 1 + width, 1, 3, 3}, found).has_value());
    EXPECT_EQ(found, std::vector<float>(3, 0.0f)) << "after a row of " << width;
  }
}

TEST_F(VulkanDevice, TakesHostArraysLargerThanItsStagingMemory) {
  constexpr uint32_t row_total = kStagingBytes / 4 + 100;
  const BufferPtr buffer = Allocate(row_total + 2);
  const Rows one = {buffer.get(), 0, 2, 1, 1}, many = {buffer.get(), 2, row_total, 1, 1};
  executor_->Write(std::vector<float>{5, 7}, one);
  std::vector<uint32_t> indexes(row_total);
  indexes.back() = 1;
  executor_->Gather(one, indexes, {}, many);
  std::vector<float> values(row_total);
  ASSERT_TRUE(executor_->Read(many, values).has_value());
  EXPECT_EQ(values[0], 5);
  EXPECT_EQ(values[row_total - 2], 5);
  EXPECT_EQ(values[row_total - 1], 7);
}

}  // namespace
}  // namespace moepack::runtime::vulkan
