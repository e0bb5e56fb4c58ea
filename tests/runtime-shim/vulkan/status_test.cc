// A device cannot be lost on purpose here, so the handling of its results is tested separately.
#include "runtime-shim/vulkan/status.h"

#include <gtest/gtest.h>

namespace moepack::runtime::vulkan {
namespace {

struct Result {
  VkResult result;
  const char* message;
};

class VulkanResult : public ::testing::TestWithParam<Result> {};

TEST_P(VulkanResult, IsUnavailableAndSaysWhy) {
  const Status status = Check(GetParam().result, "vkQueueSubmit");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_EQ(status.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    , VulkanResult,
    ::testing::Values(
        Result{VK_ERROR_DEVICE_LOST, "vulkan: vkQueueSubmit: the device was lost"},
        Result{VK_ERROR_OUT_OF_DEVICE_MEMORY, "vulkan: vkQueueSubmit: the device is out of memory"},
        Result{VK_ERROR_OUT_OF_HOST_MEMORY,
               "vulkan: vkQueueSubmit: the driver is out of host memory"},
        Result{VK_ERROR_INCOMPATIBLE_DRIVER, "vulkan: vkQueueSubmit: no driver was found"},
        Result{VK_ERROR_FORMAT_NOT_SUPPORTED,
               "vulkan: vkQueueSubmit: expected success, found VkResult -11"}));

TEST(VulkanSuccess, IsNotAnError) { EXPECT_TRUE(Check(VK_SUCCESS, "vkQueueSubmit")); }

TEST(VulkanFault, KeepsTheFirstErrorUntilItIsTaken) {
  Fault fault;
  EXPECT_TRUE(fault.Passed(Ok()));
  EXPECT_FALSE(fault);
  EXPECT_FALSE(fault.Passed(Check(VK_ERROR_DEVICE_LOST, "first")));
  fault.Set(ErrorOf(VK_ERROR_OUT_OF_DEVICE_MEMORY, "second"));
  EXPECT_TRUE(fault);
  const Status taken = fault.Take();
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().message, "vulkan: first: the device was lost");
  EXPECT_TRUE(fault.Take().has_value());
}

}  // namespace
}  // namespace moepack::runtime::vulkan
