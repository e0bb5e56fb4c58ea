// The model card of a checkpoint, its licence, and the general.* keys that a GGUF gets from
// them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/model.h"

namespace moepack {

// Top-level keys with a scalar or a list of scalars, all as text: `no` is Norwegian, not a boolean.
// Bytes that are not UTF-8 are escaped as in \xff. Nested maps and block text are left out.
using ModelCard = std::map<std::string, std::vector<std::string>, std::less<>>;

// Reads the lines between the first two "---"; empty if there are none. Understands the simple YAML
// used in cards, and skips what it does not understand, because a card is not part of the model.
ModelCard ParseModelCard(std::string_view text);
// Reads README.md of a model; empty if there is none.
Result<ModelCard> ReadModelCard(const SourceTree& tree);

// The licence of a model, as its authors state it.

// The key under which a GGUF stores it.
inline constexpr const char* kLicenseKey = "general.license";
inline constexpr const char* kLicenseNameKey = "general.license.name";
inline constexpr const char* kLicenseLinkKey = "general.license.link";

// In the Hub's terms: https://huggingface.co/docs/hub/repositories-licenses. Each may be empty.
struct ModelLicense {
  std::string id;    // "apache-2.0", "other"; several are separated by ", "
  std::string name;  // of a licence that is not on the Hub's list
  std::string link;  // link to its text
  bool empty() const { return id.empty() && name.empty() && link.empty(); }
  bool operator==(const ModelLicense&) const = default;
};

ModelLicense LicenseOfCard(const ModelCard& card);

// Reads it from general.license* of a GGUF, otherwise from the front matter of README.md. Empty if
// neither states one; kIo or kCorrupt if README.md cannot be read.
Result<ModelLicense> LicenseOf(const MoeModel& model);

// Writes general.*: a model's name and size, and what its authors say about it. Nothing here
// changes what a runtime computes.

// Names for a model whose card gives none. The name of the folder is not used, so that the same
// files give the same bytes wherever they are.
struct ModelNames {
  std::string name_or_path;  // of config.json; counts only if it is a Hub id
  std::string family;        // of the family table: "qwen3-moe"
};

// Writes general.architecture and general.type. Also writes general.name, .license*, .tags,
// .languages, .base_model.*, .dataset.* and .sampling.*, as far as the names, the front matter of
// README.md and generation_config.json provide them.
Status AddGeneralKeys(const SourceTree& tree, std::string_view architecture,
                      const ModelNames& names, GgufMetadata& metadata);

// Adds general.size_label, such as "8x1.3M": the number of experts, and the parameters of
// everything else plus one expert of each layer.
void AddSizeLabel(const std::vector<GgufTensor>& tensors, GgufMetadata& metadata);

// Returns "name" for "owner/name".
std::string_view NameOfId(std::string_view id);

// Turns "qwen3-moe" into "Qwen3 Moe": dashes become spaces, and words in lower case get a capital.
// Versions ("v0.1") and numbers stay.
std::string TitleOf(std::string_view name);

}  // namespace moepack
