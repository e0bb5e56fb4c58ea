// The sections "bundles" and "assets": a row per field of a bundle, a tensor and an asset.
#include <algorithm>
#include <array>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "manifest/document/asset_names.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {

namespace {

constexpr std::array kRoles = {Role::kHead,  Role::kTrunk,   Role::kRouters,
                               Role::kGroup, Role::kOverlay, Role::kRemainder};

std::string RoleText(Role role) { return std::string(RoleName(role)); }

Result<Role> ReadRole(const JsonFields& fields, const char* name) {
  SHARD_TRY(const std::string text, fields.String(name));
  for (Role role : kRoles) {
    if (RoleName(role) == text) return role;
  }
  return Error{
      Code::kUnsupported,
      Cat(fields.where(), ": ", name,
          ": expected head, trunk, routers, group, overlay or remainder, found ", Quoted(text)),
      "A newer moepack may know this role."};
}

Result<uint32_t> ReadGroup(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Role role, ReadRole(fields, "role"));
  if (role == Role::kGroup) return NumberUpTo<uint32_t, kMaxExpertsPerLayer - 1>(fields, name);
  return fields.Wrong(name, Cat("none in a file of role ", RoleName(role)).c_str());
}

Result<std::vector<uint64_t>> ReadShape(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* array, fields.Array(name));
  std::vector<uint64_t> shape;
  uint64_t elements = 1;
  for (const Json& item : *array) {
    const auto product = item.is_number_unsigned() ? CheckedMul(elements, item.get<uint64_t>())
                                                   : std::optional<uint64_t>();
    if (!product || shape.size() == kMaxDimensions) return fields.Wrong(name, "a tensor shape");
    elements = *product;
    shape.push_back(item.get<uint64_t>());
  }
  return shape;
}

Result<ExpertIds> ReadExpertIds(const JsonFields& fields, const char* name) {
  SHARD_TRY(const std::string text, fields.String(name));
  return ParseIds(Cat(fields.where(), ": ", name), text, kMaxExpertsPerLayer - 1);
}

std::string DerivedText(const FewExpertIds& derived) { return FormatIds(derived.ids()); }

constexpr Field<TensorRecord> kTensorFields[] = {
    {"name", AsText<&TensorRecord::name>},
    {"dtype", AsText<&TensorRecord::dtype>},
    {"shape", As<&TensorRecord::shape, ReadShape>},
    {"offset", AsCount<&TensorRecord::offset, kMaxFileBytes>},
    {"bytes", AsCount<&TensorRecord::bytes, kMaxFileBytes>},
    {"xxh3", AsHex<&TensorRecord::xxh3, 32>},
    {"layer", AsCount<&TensorRecord::layer, kMaxLayer>, Presence::kOptional},
    {"experts", As<&TensorRecord::expert_ids, ReadExpertIds, FormatIds>, Presence::kOptional},
    {"derived", As<&TensorRecord::derived, ReadExpertIds, DerivedText>, Presence::kOptional},
    {"source", AsText<&TensorRecord::source>, Presence::kOptional},
};

const quant::Format* FormatOf(const BundleRecord& bundle, const std::string& dtype) {
  return bundle.format == "safetensors" ? quant::FindSafetensorsFormat(dtype)
                                        : quant::FindFormat(dtype);
}

// If the type is known, shape and type must give the size.
Status CheckTensorSize(const std::string& where, const TensorRecord& tensor,
                       const quant::Format* format) {
  if (format == nullptr) return Ok();
  uint64_t elements = 1;
  // cannot overflow, as ReadShape has checked
  for (uint64_t dimension : tensor.shape) elements *= dimension;
  const auto bytes = format->BytesFor(elements);
  if (bytes == tensor.bytes) return Ok();
  return Error{Code::kCorrupt,
               Cat(where, ": bytes: expected ", bytes ? Cat(*bytes) : "a multiple", " for ",
                   tensor.dtype, " ", FormatShape(tensor.shape), ", found ", tensor.bytes)};
}

Result<TensorRecord> TensorFromJson(const std::string& where, const Json& value) {
  TensorRecord tensor;
  SHARD_TRY(tensor.name, JsonFields(value, where).String("name"));
  const JsonFields fields(value, Cat(where, ": tensor ", Quoted(tensor.name)));
  SHARD_CHECK(ReadFields(kTensorFields, fields, tensor));
  if (!moepack::Difference(tensor.derived.ids(), tensor.expert_ids).empty())
    return fields.Wrong("derived", "some of the experts that the tensor holds");
  return tensor;
}

// `pull` writes files under the names of a manifest that may be hostile. So a bundle must not be
// what another program runs or reads as its settings.
Result<std::string> ReadBundlePath(const JsonFields& fields, const char* name) {
  SHARD_TRY(std::string file, fields.String(name));
  const std::string& where = fields.where();
  SHARD_CHECK(CheckRelativePath(where, file));
  const std::vector<std::string> parts = Split(file, '/');
  const bool plain = std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part[0] == '.' || part[0] == '~';
  });
  const bool weights = file.ends_with(".gguf") || file.ends_with(".safetensors");
  if (plain && weights && !Lower(file).starts_with(kAssetDirectory)) return file;
  return Error{Code::kCorrupt, Cat(where,
                                   ": file: expected the path of a .gguf or .safetensors file "
                                   "outside assets/, no part of which begins with . or ~, found ",
                                   Quoted(file))};
}

// The path must be assets/ plus the name of an asset, because `assemble` copies it under that name
// beside the weights.
Result<std::string> ReadAssetPath(const JsonFields& fields, const char* name) {
  SHARD_TRY(std::string file, fields.String(name));
  const std::string& where = fields.where();
  SHARD_CHECK(CheckRelativePath(where, file));
  const bool known =
      file.starts_with(kAssetDirectory) && IsAssetName(file.substr(kAssetDirectory.size()));
  if (known) return file;
  return Error{Code::kCorrupt, Cat(where,
                                   ": file: expected assets/ and the name of a config, tokenizer, "
                                   "template, code or licence file, found ",
                                   Quoted(file))};
}

// Checks that tensors are inside the file, do not overlap, and have different names.
Status CheckLayout(const std::string& where, const BundleRecord& bundle) {
  std::vector<const TensorRecord*> order;
  TextSet<std::string_view> names;
  for (const TensorRecord& tensor : bundle.tensors) {
    order.push_back(&tensor);
    if (names.insert(tensor.name).second) continue;
    return Error{Code::kCorrupt, Cat(where, ": tensor ", Quoted(tensor.name),
                                     ": expected once in the file, found twice")};
  }
  std::sort(order.begin(), order.end(), [](const TensorRecord* a, const TensorRecord* b) {
    return a->offset != b->offset ? a->offset < b->offset : a->bytes < b->bytes;
  });
  uint64_t end = 0;
  for (const TensorRecord* tensor : order) {
    if (tensor->offset < end || tensor->offset + tensor->bytes > bundle.size) {
      return Error{
          Code::kCorrupt,
          Cat(where, ": tensor ", Quoted(tensor->name), ": expected bytes within ", end, "-",
              bundle.size, ", found ", tensor->offset, "-", tensor->offset + tensor->bytes)};
    }
    end = tensor->offset + tensor->bytes;
  }
  return Ok();
}

Json WriteCells(const BundleHead& bundle) {
  return {{"bytes", bundle.cells.bytes}, {"sha256", bundle.cells.sha256}};
}

// The chunk map must cover the file without gaps.
Status ReadCells(const JsonFields& fields, const char* name, BundleHead& bundle) {
  SHARD_TRY(const Json* value, fields.Object(name));
  const JsonFields cells(*value, Cat(fields.where(), ": ", name));
  SHARD_TRY(const uint64_t bytes, NumberField(cells, "bytes", kMaxFileBytes));
  SHARD_TRY(const Json* digests, cells.Array("sha256"));
  if (bytes == 0) return cells.Wrong("bytes", "a number of bytes above 0");
  const uint64_t count = bundle.size / bytes + (bundle.size % bytes != 0 ? 1 : 0);
  if (digests->size() != count) {
    return Error{Code::kCorrupt, Cat(cells.where(), ": sha256: expected ", Plural(count, "digest"),
                                     " for ", bundle.size, " bytes, found ", digests->size())};
  }
  bundle.cells.bytes = bytes;
  for (const Json& digest : *digests) {
    if (!digest.is_string() || !IsHex(digest.get_ref<const std::string&>(), 64))
      return cells.Wrong("sha256", "digests of 64 lower-case hexadecimal digits");
    bundle.cells.sha256.push_back(digest.get<std::string>());
  }
  return Ok();
}

bool HasCells(const BundleHead& bundle) { return !bundle.cells.sha256.empty(); }

// "tensors" follow, which are written one at a time (manifest_write.cc).
constexpr Field<BundleHead> kBundleFields[] = {
    {"role", As<&BundleHead::role, ReadRole, RoleText>},
    {"group", As<&BundleHead::group, ReadGroup>, Presence::kOptional},
    {"file", As<&BundleHead::file, ReadBundlePath>},
    {"format", AsText<&BundleHead::format>},
    {"size", AsCount<&BundleHead::size, kMaxFileBytes>},
    {"sha256", AsHex<&BundleHead::sha256, 64>},
    {"cells", {WriteCells, ReadCells, HasCells}, Presence::kOptional},
};

constexpr Field<AssetRecord> kAssetFields[] = {
    {"file", As<&AssetRecord::file, ReadAssetPath>},
    {"size", AsCount<&AssetRecord::size, kMaxFileBytes>},
    {"sha256", AsHex<&AssetRecord::sha256, 64>},
};

Status ReadTensors(const JsonFields& fields, BundleRecord& bundle, uint64_t& ids_left) {
  SHARD_TRY(const Json* tensors, fields.Array("tensors"));
  bundle.tensors.reserve(tensors->size());
  for (const Json& value : *tensors) {
    SHARD_CHECK(CheckObject(Cat(fields.where(), ": tensors"), value));
    SHARD_TRY(TensorRecord tensor, TensorFromJson(fields.where(), value));
    const std::string where = Cat(fields.where(), ": tensor ", Quoted(tensor.name));
    SHARD_CHECK(CheckTensorSize(where, tensor, FormatOf(bundle, tensor.dtype)));
    if (tensor.expert_ids.size() > ids_left) {
      return Error{Code::kCorrupt, Cat(where, ": experts: expected at most ", kMaxTensorIds,
                                       " ids in all tensors together, found more")};
    }
    ids_left -= tensor.expert_ids.size();
    bundle.tensors.push_back(std::move(tensor));
  }
  return CheckLayout(fields.where(), bundle);
}

}  // namespace

Json BundleToJson(const BundleRecord& bundle) { return ToJson(kBundleFields, bundle); }

Json TensorToJson(const TensorRecord& tensor) { return ToJson(kTensorFields, tensor); }

Json AssetToJson(const AssetRecord& asset) { return ToJson(kAssetFields, asset); }

Result<BundleRecord> BundleFromJson(const std::string& where, const Json& value,
                                    uint64_t& ids_left) {
  SHARD_CHECK(CheckObject(where, value));
  SHARD_TRY(const std::string file, ReadBundlePath(JsonFields(value, where), "file"));
  const JsonFields fields(value, Cat(where, " ", Quoted(file)));
  BundleRecord bundle;
  SHARD_CHECK(ReadFields(kBundleFields, fields, bundle));
  if (bundle.role == Role::kGroup && !bundle.group) return fields.Wrong("group", "a whole number");
  SHARD_CHECK(ReadTensors(fields, bundle, ids_left));
  return bundle;
}

Result<AssetRecord> AssetFromJson(const std::string& where, const Json& value) {
  return ReadRecord(kAssetFields, where, value);
}

}  // namespace moepack::manifest
