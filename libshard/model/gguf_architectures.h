// The architectures with experts that stock llama.cpp has.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace shard {

// Whether llama.cpp v0.5.0 loads experts for this general.architecture. For any other one it is not
// known what else depends on the number of experts: its files can be read and given other types,
// but not cut.
bool IsMoeArchitecture(std::string_view architecture);
// Why a file of such an architecture cannot be cut; `where` names it.
Error UnknownArchitecture(const std::string& where, std::string_view architecture);

}  // namespace shard
