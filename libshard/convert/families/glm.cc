#include "libshard/convert/families/glm.h"

#include "libshard/base/text/text.h"

namespace moepack {

void AddGlmRules(HfFamily& family) {
  family.pre = "glm4";
  family.special_texts = {{"bos", "[gMASK]"},
                          {"eot", "<|user|>"},
                          {"unk", "<|endoftext|>"},
                          {"eom", "<|observation|>"}};
  family.keeps_mtp = true;
  const auto add = [&](const char* source, const char* target, bool optional) {
    family.rows.push_back({.source = Cat("layers.{L}.", source, ".weight"),
                           .target = Cat("blk.{L}.nextn.", target, ".weight"),
                           .optional = optional,
                           .mtp = true});
  };
  for (const char* name : {"eh_proj", "enorm", "hnorm"}) add(name, name, false);
  add("embed_tokens", "embed_tokens", true);
  add("shared_head.head", "shared_head_head", true);
  add("shared_head.norm", "shared_head_norm", true);
}

}  // namespace moepack
