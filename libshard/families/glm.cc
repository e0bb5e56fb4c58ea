#include "libshard/families/glm.h"

#include "libshard/families/mixed_layers.h"

namespace moepack {

void AddGlmRules(HfFamily& family) {
  family.pre = "glm4";
  family.special_texts = {{"bos", "[gMASK]"},
                          {"eot", "<|user|>"},
                          {"unk", "<|endoftext|>"},
                          {"eom", "<|observation|>"}};
  family.keeps_mtp = true;
  AddNextTokenRows(family);
}

}  // namespace moepack
