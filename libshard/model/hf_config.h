// Reads the fields of config.json under any of their names (config_fields.h) and checks their
// types. The defaults of transformers' config classes are not filled in.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

inline constexpr uint64_t kMaxConfigBytes = 16u << 20;

// The names of one field; the first one present counts.
using ConfigKeys = std::initializer_list<const char*>;

// Copyable; copies share the document. A nested text config (text_config, llm_config,
// language_config, thinker_config; in it DBRX's ffn_config) overrides what surrounds it: a field of
// the innermost config, under any of its names, takes precedence over one of the config around it.
// The configs of single blocks (Nemotron-3 Puzzle's block_configs) are read as the lists with one
// entry per layer that other configs have. A null field is absent.
class HfConfig {
 public:
  static Result<HfConfig> Parse(const std::string& where, std::string_view text);

  // Returns a config that looks up absent fields in `json`, an object of defaults.
  Result<HfConfig> WithDefaults(std::string_view json) const;

  struct Field {
    const Json* value;
    std::string path;  // "text_config.num_experts"
  };
  // Finds the innermost config that has one of the names, and returns the first of the names there.
  std::optional<Field> Find(ConfigKeys keys) const;
  // Searches from the root inwards instead. Ids of special tokens are read this way.
  std::optional<Field> FindAtRoot(ConfigKeys keys) const;
  bool Has(ConfigKeys keys) const { return Find(keys).has_value(); }

  // These return no value if the field is absent, and kCorrupt if it has the wrong type or is out
  // of range.
  Result<std::optional<uint32_t>> FindU32(ConfigKeys keys) const;
  Result<std::optional<float>> FindF32(ConfigKeys keys) const;
  Result<std::optional<bool>> FindBool(ConfigKeys keys) const;
  Result<std::optional<std::string>> FindString(ConfigKeys keys) const;
  // Reads one number or a list; empty if absent.
  Result<std::vector<uint32_t>> FindU32s(ConfigKeys keys) const;
  // Reads one number, or a list with one for each layer; kUnsupported if these differ.
  Result<std::optional<uint32_t>> FindSameU32(ConfigKeys keys) const;
  // Reads a list of numbers; empty if absent.
  Result<std::vector<float>> FindF32s(ConfigKeys keys) const;
  // For required fields: kCorrupt also if the field is absent.
  Result<uint32_t> U32(ConfigKeys keys) const;
  Result<float> F32(ConfigKeys keys) const;

  // Returns the rope parameters as one flat object: `rope_parameters` of newer transformers,
  // otherwise `rope_scaling`, with root-level rope_theta and partial_rotary_factor mirrored into it
  // and `type` read as `rope_type`. kUnsupported for parameters that differ by kind of layer.
  Result<HfConfig> Rope() const;

  // Returns a config of the object under `key`, without what surrounds it; kCorrupt if it is absent
  // or no object.
  Result<HfConfig> Within(const char* key) const;

  const Json& root() const { return *scopes_.back().fields; }
  // Returns the nested config of the text model and its path ("text_config."), if there is one.
  std::optional<Field> NestedText() const;

  const std::string& where() const { return where_; }
  Error Wrong(const Field& field, const std::string& expected) const;
  Error Missing(ConfigKeys keys, const std::string& expected) const;

 private:
  struct Scope {
    std::shared_ptr<const Json> fields;
    std::string path;  // "text_config."; "" for the root
  };

  std::string where_;
  std::vector<Scope> scopes_;  // innermost first
  std::shared_ptr<const Json> defaults_;
};

}  // namespace moepack
