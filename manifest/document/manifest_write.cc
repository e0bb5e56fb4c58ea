// Prints a manifest. Tensors become text one at a time, because a large model has hundreds of
// thousands, which would take gigabytes as JSON values.
#include "manifest/document/manifest_write.h"

#include <algorithm>
#include <cassert>
#include <span>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/unknown_fields.h"

namespace moepack::manifest {
namespace {

// Names from the command line need not be UTF-8, but a manifest must be.
std::string ScalarText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool AllScalars(const Json& value) {
  return std::none_of(value.begin(), value.end(),
                      [](const Json& item) { return item.is_structured(); });
}

// True for an object of scalars and arrays of scalars, which is printed on one line.
bool IsRecord(const Json& value) {
  return value.is_object() && std::all_of(value.begin(), value.end(), [](const Json& item) {
           return item.is_array() ? AllScalars(item) : !item.is_object();
         });
}

// Appends a value on one line: {"name": "x", "shape": [2, 3]}. The recursion is bounded, because
// the JSON reader limits the depth.
void AppendInline(std::string& out, const Json& value) {
  if (!value.is_structured()) {
    out += ScalarText(value);
    return;
  }
  const char* separator = "";
  out += value.is_object() ? '{' : '[';
  for (const auto& [key, item] : value.items()) {
    out += separator;
    if (value.is_object()) out += ScalarText(key) + ": ";
    AppendInline(out, item);
    separator = ", ";
  }
  out += value.is_object() ? '}' : ']';
}

// Appends a value. An object takes one line per field, unless it has only one scalar, as in {"*":
// "0-5"}. An array of scalars takes one line; any other array takes one line per record.
void AppendValue(std::string& out, const Json& value, size_t indent, bool in_array) {
  const bool short_value = AllScalars(value) && (value.is_array() || value.size() == 1);
  if (!value.is_structured() || value.empty() || short_value || (in_array && IsRecord(value))) {
    AppendInline(out, value);
    return;
  }
  const char* separator = "\n";
  out += value.is_object() ? '{' : '[';
  for (const auto& [key, item] : value.items()) {
    out.append(separator).append(indent + 2, ' ');
    if (value.is_object()) out += ScalarText(key) + ": ";
    AppendValue(out, item, indent + 2, value.is_array());
    separator = ",\n";
  }
  out.append("\n").append(indent, ' ') += value.is_object() ? '}' : ']';
}

// Appends the fields of `object`, each on its own lines and followed by a comma.
void AppendFields(std::string& out, const Json& object, size_t indent) {
  for (const auto& [key, value] : object.items()) {
    out.append(indent, ' ') += ScalarText(key) + ": ";
    AppendValue(out, value, indent, false);
    out += ",\n";
  }
}

// Buffers text on its way to `sink`. The whole text of a large model would be larger than
// everything else in memory.
class TextOut {
 public:
  explicit TextOut(const ManifestSink& sink) : sink_(sink) {}
  std::string& text() { return text_; }
  // Hands the buffer to `sink` once it holds at least `least` bytes.
  Status Flush(size_t least = 1u << 18) {
    if (text_.size() < least) return Ok();
    SHARD_CHECK(sink_(text_));
    text_.clear();
    return Ok();
  }

 private:
  const ManifestSink& sink_;
  std::string text_;
};

Status AppendTensors(TextOut& to, const BundleRecord& bundle, const RecordIndex& unknown) {
  std::string& out = to.text();
  const char* separator = "\n";
  for (const TensorRecord& tensor : bundle.tensors) {
    Json record = TensorToJson(tensor);
    const auto kept = unknown.find(tensor.name);
    if (kept != unknown.end()) KeepUnknown(*kept->second, record);
    out.append(separator).append(8, ' ');
    AppendInline(out, record);
    separator = ",\n";
    SHARD_CHECK(to.Flush());
  }
  if (!bundle.tensors.empty()) out.append("\n").append(6, ' ');
  return Ok();
}

Status AppendBundle(TextOut& to, const BundleRecord& bundle, const Json& unknown) {
  std::string& out = to.text();
  const Json fields = BundleToJson(bundle);
  Json kept = Json::object();
  for (const auto& [key, value] : unknown.items()) {
    if (key == "tensors" || fields.contains(key)) continue;
    kept.get_ref<Json::object_t&>().push_back({key, value});
  }
  out += "    {\n";
  AppendFields(out, fields, 6);
  AppendFields(out, kept, 6);
  out += "      \"tensors\": [";
  SHARD_CHECK(AppendTensors(to, bundle, IndexRecords(unknown, "tensors")));
  out += "]\n    }";
  return Ok();
}

Status AppendBundles(TextOut& to, const Manifest& manifest) {
  std::string& out = to.text();
  const RecordIndex unknown = IndexRecords(UnknownOf(manifest), "bundles");
  static const Json none = Json::object();
  const char* separator = "\n";
  out += "  \"bundles\": [";
  for (const BundleRecord& bundle : manifest.bundles) {
    out += separator;
    const auto kept = unknown.find(bundle.file);
    SHARD_CHECK(AppendBundle(to, bundle, kept == unknown.end() ? none : *kept->second));
    separator = ",\n";
  }
  out += manifest.bundles.empty() ? "],\n" : "\n  ],\n";
  return Ok();
}

}  // namespace

Status StreamManifest(const Manifest& manifest, const ManifestSink& sink) {
  Json head = HeadToJson(manifest);
  Json tail = TailToJson(manifest);
  Json for_head = Json::object(), for_tail = Json::object();
  for (const auto& [key, value] : UnknownOf(manifest).items()) {
    if (key == "bundles") continue;
    Json& part = head.contains(key) ? for_head : for_tail;
    part.get_ref<Json::object_t&>().push_back({key, value});
  }
  KeepUnknown(for_head, head);
  KeepUnknown(for_tail, tail);
  TextOut to(sink);
  std::string& out = to.text();
  out = "{\n";
  AppendFields(out, head, 2);
  SHARD_CHECK(AppendBundles(to, manifest));
  AppendFields(out, tail, 2);
  out.replace(out.size() - 2, 2, "\n}\n");  // replaces the comma after the last field
  return to.Flush(0);
}

std::string WriteManifest(const Manifest& manifest) {
  std::string out;
  const Status done = StreamManifest(manifest, [&](std::string_view text) {
    out += text;
    return Ok();
  });
  assert(done);
  static_cast<void>(done);
  return out;
}

std::string ManifestDigest(const Manifest& manifest) {
  Sha256 hash;
  const Status done = StreamManifest(manifest, [&](std::string_view text) {
    hash.Update(std::as_bytes(std::span(text)));
    return Ok();
  });
  assert(done);
  static_cast<void>(done);
  return hash.Finish();
}

uint64_t ManifestBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  const Status done = StreamManifest(manifest, [&](std::string_view text) {
    bytes += text.size();
    return Ok();
  });
  assert(done);
  static_cast<void>(done);
  return bytes;
}

Status WriteManifestFile(const InsideDirectory& directory, const Manifest& manifest) {
  return directory.WritePieces(
      kManifestFile, [&](const ManifestSink& sink) { return StreamManifest(manifest, sink); });
}

}  // namespace moepack::manifest
