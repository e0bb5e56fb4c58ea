#include "libshard/base/text/json_stream.h"

namespace moepack {

Status JsonBuilder::Open(Json value) {
  open_.push_back({std::move(key_), std::move(value)});
  key_.clear();
  return Ok();
}

Status JsonBuilder::Close() {
  Level level = std::move(open_.back());
  open_.pop_back();
  key_ = std::move(level.key);
  return Add(std::move(level.value));
}

Status JsonBuilder::Add(Json value) {
  if (open_.empty()) {
    root_ = std::move(value);
  } else if (open_.back().value.is_array()) {
    open_.back().value.push_back(std::move(value));
  } else {
    // Keys are known to be distinct, so append without the linear search of operator[].
    auto& object = open_.back().value.get_ref<Json::object_t&>();
    object.push_back({std::move(key_), std::move(value)});
  }
  key_.clear();
  return Ok();
}

}  // namespace moepack
