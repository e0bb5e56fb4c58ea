#include "runtime-shim/vulkan/points.h"

#include "quant/grids/points.h"

namespace moepack::runtime::vulkan {
namespace {

struct Book {
  std::string_view format;
  std::span<const uint16_t> points;
};

}  // namespace

std::span<const uint16_t> PointsOf(std::string_view format) {
  static const Book kBooks[] = {
      {"iq1_s", quant::kIq1Points},      {"iq1_m", quant::kIq1Points},
      {"iq2_xxs", quant::kIq2XxsPoints}, {"iq2_xs", quant::kIq2XsPoints},
      {"iq2_s", quant::kIq2SPoints},     {"iq3_xxs", quant::kIq3XxsPoints},
      {"iq3_s", quant::kIq3SPoints},
  };
  for (const Book& book : kBooks) {
    if (book.format == format) return book.points;
  }
  return {};
}

}  // namespace moepack::runtime::vulkan
