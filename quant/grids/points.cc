#include "quant/grids/points.h"

namespace quant {

const std::array<uint16_t, 2048> kIq1Points = {
#include "quant/grids/points/iq1.inc"
};

const std::array<uint16_t, 256> kIq2XxsPoints = {
#include "quant/grids/points/iq2_xxs.inc"
};

const std::array<uint16_t, 512> kIq2XsPoints = {
#include "quant/grids/points/iq2_xs.inc"
};

const std::array<uint16_t, 1024> kIq2SPoints = {
#include "quant/grids/points/iq2_s.inc"
};

const std::array<uint16_t, 256> kIq3XxsPoints = {
#include "quant/grids/points/iq3_xxs.inc"
};

const std::array<uint16_t, 512> kIq3SPoints = {
#include "quant/grids/points/iq3_s.inc"
};

}  // namespace quant
