#include "runtime-shim/cpu/panels.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

TEST(PanelProducts, MatchTheReference) {
  for (const size_t count : {1, 2, 3, 8, 11}) {
    for (const size_t depth : {0, 1, 7, 256, 300}) {
      const std::vector<float> factors = RandomFloats(count * (depth + 3), 1),
                               panel = RandomFloats((depth + 1) * 40, 2);
      std::vector<float> found = RandomFloats(count * kPanelColumns, 3), wanted = found;
      AddPanelProducts({factors.data(), depth + 3, count, depth}, {panel.data(), 40},
                       {found.data()});
      AddPanelProductsRef({factors.data(), depth + 3, count, depth}, {panel.data(), 40},
                          {wanted.data()});
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], wanted[i], 1e-4) << count << " " << depth << " " << i;
    }
  }
}

}  // namespace
}  // namespace moepack::runtime
