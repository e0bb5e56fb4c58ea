// Sources: enum ggml_type of ggml.h, in ggml-org/llama.cpp v0.5.0 and in ikawrakow/ik_llama.cpp
// (2026-08-15), whose own types start at 97.
#include "quant/other_types.h"

#include <algorithm>
#include <array>

namespace quant {
namespace {

constexpr std::array kOtherTypes = {
    OtherType{4, "q4_2", TypeOwner::kRemoved},
    OtherType{5, "q4_3", TypeOwner::kRemoved},
    OtherType{31, "q4_0_4_4", TypeOwner::kRemoved},
    OtherType{32, "q4_0_4_8", TypeOwner::kRemoved},
    OtherType{33, "q4_0_8_8", TypeOwner::kRemoved},
    OtherType{36, "iq4_nl_4_4", TypeOwner::kRemoved},
    OtherType{37, "iq4_nl_4_8", TypeOwner::kRemoved},
    OtherType{38, "iq4_nl_8_8", TypeOwner::kRemoved},
    OtherType{9, "q8_1", TypeOwner::kInMemory},
    OtherType{15, "q8_K", TypeOwner::kInMemory},
    OtherType{97, "q8_0_x4", TypeOwner::kIkLlamaCpp},
    OtherType{98, "q8_1_x4", TypeOwner::kIkLlamaCpp},
    OtherType{99, "q8_2_x4", TypeOwner::kIkLlamaCpp},
    OtherType{133, "q6_0", TypeOwner::kIkLlamaCpp},
    OtherType{134, "iq1_bn", TypeOwner::kIkLlamaCpp},
    OtherType{135, "iq2_bn", TypeOwner::kIkLlamaCpp},
    OtherType{136, "q8_K64", TypeOwner::kIkLlamaCpp},
    OtherType{137, "iq2_k", TypeOwner::kIkLlamaCpp},
    OtherType{138, "iq3_k", TypeOwner::kIkLlamaCpp},
    OtherType{139, "iq4_k", TypeOwner::kIkLlamaCpp},
    OtherType{140, "iq5_k", TypeOwner::kIkLlamaCpp},
    OtherType{141, "iq6_k", TypeOwner::kIkLlamaCpp},
    OtherType{142, "iq2_tn", TypeOwner::kIkLlamaCpp},
    OtherType{143, "iq1_tn", TypeOwner::kIkLlamaCpp},
    OtherType{144, "iq4_ks", TypeOwner::kIkLlamaCpp},
    OtherType{145, "iq2_ks", TypeOwner::kIkLlamaCpp},
    OtherType{146, "iq4_kss", TypeOwner::kIkLlamaCpp},
    OtherType{147, "q8_K16", TypeOwner::kIkLlamaCpp},
    OtherType{148, "q8_K32", TypeOwner::kIkLlamaCpp},
    OtherType{149, "q8_KR8", TypeOwner::kIkLlamaCpp},
    OtherType{150, "q8_K128", TypeOwner::kIkLlamaCpp},
    OtherType{151, "q8_KV", TypeOwner::kIkLlamaCpp},
    OtherType{152, "iq5_ks", TypeOwner::kIkLlamaCpp},
    OtherType{153, "iq2_kt", TypeOwner::kIkLlamaCpp},
    OtherType{154, "iq3_kt", TypeOwner::kIkLlamaCpp},
    OtherType{155, "iq4_kt", TypeOwner::kIkLlamaCpp},
    OtherType{156, "iq3_ks", TypeOwner::kIkLlamaCpp},
    OtherType{157, "iq2_kl", TypeOwner::kIkLlamaCpp},
    OtherType{158, "iq1_kt", TypeOwner::kIkLlamaCpp},
    OtherType{202, "q4_0_r8", TypeOwner::kIkLlamaCpp},
    OtherType{206, "q5_0_r4", TypeOwner::kIkLlamaCpp},
    OtherType{208, "q8_0_r8", TypeOwner::kIkLlamaCpp},
    OtherType{210, "q2_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{211, "q3_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{212, "q4_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{213, "q5_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{214, "q6_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{216, "iq2_xxs_r4", TypeOwner::kIkLlamaCpp},
    OtherType{217, "iq2_xs_r4", TypeOwner::kIkLlamaCpp},
    OtherType{218, "iq3_xxs_r4", TypeOwner::kIkLlamaCpp},
    OtherType{219, "iq1_s_r4", TypeOwner::kIkLlamaCpp},
    OtherType{220, "iq4_nl_r4", TypeOwner::kIkLlamaCpp},
    OtherType{221, "iq3_s_r4", TypeOwner::kIkLlamaCpp},
    OtherType{222, "iq2_s_r4", TypeOwner::kIkLlamaCpp},
    OtherType{223, "iq4_xs_r8", TypeOwner::kIkLlamaCpp},
    OtherType{229, "iq1_m_r4", TypeOwner::kIkLlamaCpp},
    OtherType{230, "bf16_r16", TypeOwner::kIkLlamaCpp},
    OtherType{233, "q6_0_r4", TypeOwner::kIkLlamaCpp},
    OtherType{335, "iq2_bn_r4", TypeOwner::kIkLlamaCpp},
    OtherType{337, "iq2_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{338, "iq3_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{339, "iq4_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{340, "iq5_k_r4", TypeOwner::kIkLlamaCpp},
    OtherType{344, "iq4_ks_r4", TypeOwner::kIkLlamaCpp},
    OtherType{352, "iq5_ks_r4", TypeOwner::kIkLlamaCpp},
    OtherType{353, "mxfp4_r8", TypeOwner::kIkLlamaCpp},
    OtherType{397, "q8_K_R16", TypeOwner::kIkLlamaCpp},
    OtherType{398, "q8_KV_r8", TypeOwner::kIkLlamaCpp},
    OtherType{399, "q8_K_r8", TypeOwner::kIkLlamaCpp},
};

char LowerOf(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

const OtherType* FindOtherType(uint32_t id) {
  const auto* const row = std::find_if(kOtherTypes.begin(), kOtherTypes.end(),
                                       [&](const OtherType& type) { return type.id == id; });
  return row == kOtherTypes.end() ? nullptr : row;
}

const OtherType* FindOtherType(std::string_view name) {
  const auto* const row =
      std::find_if(kOtherTypes.begin(), kOtherTypes.end(), [&](const OtherType& type) {
        return std::equal(name.begin(), name.end(), type.name.begin(), type.name.end(),
                          [](char a, char b) { return LowerOf(a) == LowerOf(b); });
      });
  return row == kOtherTypes.end() ? nullptr : row;
}

std::string_view OwnerText(TypeOwner owner) {
  switch (owner) {
    case TypeOwner::kRemoved:
      return "which ggml no longer reads";
    case TypeOwner::kInMemory:
      return "which ggml uses only in memory";
    case TypeOwner::kIkLlamaCpp:
      break;
  }
  return "a type of ik_llama.cpp";
}

}  // namespace quant
