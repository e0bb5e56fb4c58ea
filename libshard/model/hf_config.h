// The fields of config.json, each under any of its names (config_fields.h), strictly typed. The
// defaults of transformers' config classes are not filled in.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/json.h"
#include "libshard/base/result.h"

namespace moepack {

inline constexpr uint64_t kMaxConfigBytes = 16u << 20;

// The names of one field; the first that is present counts.
using ConfigKeys = std::initializer_list<const char*>;

// Copyable; copies share the document. A nested text config (text_config, llm_config,
// language_config, thinker_config; in it DBRX's ffn_config) is laid over what surrounds it: a field
// of the innermost config counts, under whichever of its names, before one of the config around it.
// A field that is null is absent.
class HfConfig {
 public:
  static Result<HfConfig> Parse(const std::string& where, std::string_view text);

  // Fields that are absent under all their names are looked up in `json`, an object.
  Result<HfConfig> WithDefaults(std::string_view json) const;

  struct Field {
    const Json* value;
    std::string path;  // "text_config.num_experts"
  };
  // Looks in the innermost config that has one of the names, and takes the first of them there.
  std::optional<Field> Find(ConfigKeys keys) const;
  // The same from the root inwards, for ids of special tokens.
  std::optional<Field> FindAtRoot(ConfigKeys keys) const;
  bool Has(ConfigKeys keys) const { return Find(keys).has_value(); }

  // Optional fields have no value when absent; kCorrupt when of another type or out of range.
  Result<std::optional<uint32_t>> FindU32(ConfigKeys keys) const;
  Result<std::optional<float>> FindF32(ConfigKeys keys) const;
  Result<std::optional<bool>> FindBool(ConfigKeys keys) const;
  Result<std::optional<std::string>> FindString(ConfigKeys keys) const;
  // One number, or a list of them; empty when absent.
  Result<std::vector<uint32_t>> FindU32s(ConfigKeys keys) const;
  // A list of numbers; empty when absent.
  Result<std::vector<float>> FindF32s(ConfigKeys keys) const;
  // Required fields are kCorrupt when absent.
  Result<uint32_t> U32(ConfigKeys keys) const;
  Result<float> F32(ConfigKeys keys) const;

  // The rope parameters as one flat object of their own: `rope_parameters` of newer transformers,
  // else `rope_scaling`, with root-level rope_theta and partial_rotary_factor mirrored into it and
  // `type` read as `rope_type`. kUnsupported for parameters that differ by kind of layer.
  Result<HfConfig> Rope() const;

  const Json& root() const { return *scopes_.back().fields; }
  // The text model's own config and its path ("text_config."), when it is nested.
  std::optional<Field> NestedText() const;

  const std::string& where() const { return where_; }
  Error Wrong(const Field& field, const std::string& expected) const;
  Error Missing(ConfigKeys keys, const std::string& expected) const;

 private:
  struct Scope {
    std::shared_ptr<const Json> fields;
    std::string path;  // "text_config.", "" for the root
  };

  std::string where_;
  std::vector<Scope> scopes_;  // innermost first
  std::shared_ptr<const Json> defaults_;
};

}  // namespace moepack
