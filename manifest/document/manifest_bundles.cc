// The sections "bundles" and "assets".
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

Result<Role> RoleFromText(const std::string& where, const std::string& text) {
  for (Role role : kRoles) {
    if (RoleName(role) == text) return role;
  }
  return Error{
      Code::kUnsupported,
      Cat(where, ": role: expected head, trunk, routers, group, overlay or remainder, found ",
          Quoted(text)),
      "A newer moepack may know this role."};
}

Error NotAnObject(const std::string& where, const Json& value) {
  return {Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
}

Result<std::vector<uint64_t>> ShapeFromJson(const JsonFields& fields) {
  SHARD_TRY(const Json* array, fields.Array("shape"));
  std::vector<uint64_t> shape;
  uint64_t elements = 1;
  for (const Json& item : *array) {
    const auto product = item.is_number_unsigned() ? CheckedMul(elements, item.get<uint64_t>())
                                                   : std::optional<uint64_t>();
    if (!product || shape.size() == kMaxDimensions) return fields.Wrong("shape", "a tensor shape");
    elements = *product;
    shape.push_back(item.get<uint64_t>());
  }
  return shape;
}

const quant::Format* FormatOf(const BundleRecord& bundle, const std::string& dtype) {
  return bundle.format == "safetensors" ? quant::FindSafetensorsFormat(dtype)
                                        : quant::FindFormat(dtype);
}

// If the type is known, shape and type must give the size.
Status CheckTensorSize(const std::string& where, const TensorRecord& tensor,
                       const quant::Format* format) {
  if (format == nullptr) return Ok();
  uint64_t elements = 1;
  // cannot overflow, as ShapeFromJson has checked
  for (uint64_t dimension : tensor.shape) elements *= dimension;
  const auto bytes = format->BytesFor(elements);
  if (bytes == tensor.bytes) return Ok();
  return Error{Code::kCorrupt,
               Cat(where, ": bytes: expected ", bytes ? Cat(*bytes) : "a multiple", " for ",
                   tensor.dtype, " ", FormatShape(tensor.shape), ", found ", tensor.bytes)};
}

Status ReadTensor(const JsonFields& fields, TensorRecord& tensor) {
  SHARD_TRY(tensor.dtype, fields.String("dtype"));
  SHARD_TRY(tensor.shape, ShapeFromJson(fields));
  SHARD_TRY(tensor.offset, NumberField(fields, "offset", kMaxFileBytes));
  SHARD_TRY(tensor.bytes, NumberField(fields, "bytes", kMaxFileBytes));
  SHARD_TRY(tensor.xxh3, HexField(fields, "xxh3", 32));
  if (fields.Has("layer")) {
    SHARD_TRY(const uint64_t layer, NumberField(fields, "layer", kMaxLayer));
    tensor.layer = static_cast<uint32_t>(layer);
  }
  SHARD_TRY(const std::string experts, fields.StringOr("experts", ""));
  SHARD_TRY(tensor.expert_ids,
            ParseIds(Cat(fields.where(), ": experts"), experts, kMaxExpertsPerLayer - 1));
  SHARD_TRY(const std::string derived, fields.StringOr("derived", ""));
  SHARD_TRY(tensor.derived,
            ParseIds(Cat(fields.where(), ": derived"), derived, kMaxExpertsPerLayer - 1));
  if (!moepack::Difference(tensor.derived.ids(), tensor.expert_ids).empty())
    return fields.Wrong("derived", "some of the experts that the tensor holds");
  SHARD_TRY(tensor.source, fields.StringOr("source", ""));
  return Ok();
}

Result<TensorRecord> TensorFromJson(const std::string& where, const Json& value) {
  TensorRecord tensor;
  SHARD_TRY(tensor.name, JsonFields(value, where).String("name"));
  SHARD_CHECK(ReadTensor(JsonFields(value, Cat(where, ": tensor ", Quoted(tensor.name))), tensor));
  return tensor;
}

// `pull` writes files under the names of a manifest that may be hostile. So a bundle must not be
// what another program runs or reads as its settings.
Status CheckBundlePath(const std::string& where, const std::string& file) {
  SHARD_CHECK(CheckRelativePath(where, file));
  const std::vector<std::string> parts = Split(file, '/');
  const bool plain = std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part[0] == '.' || part[0] == '~';
  });
  const bool weights = file.ends_with(".gguf") || file.ends_with(".safetensors");
  if (plain && weights && !Lower(file).starts_with(kAssetDirectory)) return Ok();
  return Error{Code::kCorrupt, Cat(where,
                                   ": file: expected the path of a .gguf or .safetensors file "
                                   "outside assets/, no part of which begins with . or ~, found ",
                                   Quoted(file))};
}

// The path must be assets/ plus the name of an asset, because `assemble` copies it under that name
// beside the weights.
Status CheckAssetPath(const std::string& where, const std::string& file) {
  SHARD_CHECK(CheckRelativePath(where, file));
  const bool known =
      file.starts_with(kAssetDirectory) && IsAssetName(file.substr(kAssetDirectory.size()));
  if (known) return Ok();
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

// The chunk map must cover the file without gaps.
Status ReadCells(const JsonFields& fields, BundleRecord& bundle) {
  if (!fields.Has("cells")) return Ok();
  SHARD_TRY(const Json* value, fields.Object("cells"));
  const JsonFields cells(*value, Cat(fields.where(), ": cells"));
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

Status ReadTensors(const JsonFields& fields, BundleRecord& bundle, uint64_t& ids_left) {
  SHARD_TRY(const Json* tensors, fields.Array("tensors"));
  bundle.tensors.reserve(tensors->size());
  for (const Json& value : *tensors) {
    if (!value.is_object()) return NotAnObject(Cat(fields.where(), ": tensors"), value);
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

Json BundleToJson(const BundleRecord& bundle) {
  Json out = {{"role", std::string(RoleName(bundle.role))}};
  if (bundle.group) out["group"] = *bundle.group;
  out["file"] = bundle.file;
  out["format"] = bundle.format;
  out["size"] = bundle.size;
  out["sha256"] = bundle.sha256;
  if (!bundle.cells.sha256.empty())
    out["cells"] = {{"bytes", bundle.cells.bytes}, {"sha256", bundle.cells.sha256}};
  return out;
}

Json TensorToJson(const TensorRecord& tensor) {
  Json out = {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}};
  out["offset"] = tensor.offset;
  out["bytes"] = tensor.bytes;
  out["xxh3"] = tensor.xxh3;
  if (tensor.layer) out["layer"] = *tensor.layer;
  if (!tensor.expert_ids.empty()) out["experts"] = FormatIds(tensor.expert_ids);
  if (!tensor.derived.empty()) out["derived"] = FormatIds(tensor.derived.ids());
  if (!tensor.source.empty()) out["source"] = tensor.source;
  return out;
}

Json AssetToJson(const AssetRecord& asset) {
  return {{"file", asset.file}, {"size", asset.size}, {"sha256", asset.sha256}};
}

Result<BundleRecord> BundleFromJson(const std::string& where, const Json& value,
                                    uint64_t& ids_left) {
  if (!value.is_object()) return NotAnObject(where, value);
  BundleRecord bundle;
  SHARD_TRY(bundle.file, JsonFields(value, where).String("file"));
  SHARD_CHECK(CheckBundlePath(where, bundle.file));
  const JsonFields fields(value, Cat(where, " ", Quoted(bundle.file)));
  SHARD_TRY(const std::string role, fields.String("role"));
  SHARD_TRY(bundle.role, RoleFromText(fields.where(), role));
  if (bundle.role == Role::kGroup) {
    SHARD_TRY(const uint64_t group, NumberField(fields, "group", kMaxExpertsPerLayer - 1));
    bundle.group = static_cast<uint32_t>(group);
  } else if (fields.Has("group")) {
    return fields.Wrong("group", Cat("none in a file of role ", role).c_str());
  }
  SHARD_TRY(bundle.format, fields.String("format"));
  SHARD_TRY(bundle.size, NumberField(fields, "size", kMaxFileBytes));
  SHARD_TRY(bundle.sha256, HexField(fields, "sha256", 64));
  SHARD_CHECK(ReadCells(fields, bundle));
  SHARD_CHECK(ReadTensors(fields, bundle, ids_left));
  return bundle;
}

Result<AssetRecord> AssetFromJson(const std::string& where, const Json& value) {
  if (!value.is_object()) return NotAnObject(where, value);
  const JsonFields fields(value, where);
  AssetRecord asset;
  SHARD_TRY(asset.file, fields.String("file"));
  SHARD_CHECK(CheckAssetPath(where, asset.file));
  SHARD_TRY(asset.size, NumberField(fields, "size", kMaxFileBytes));
  SHARD_TRY(asset.sha256, HexField(fields, "sha256", 64));
  return asset;
}

}  // namespace moepack::manifest
