#include "text/jinja/value.h"

namespace cortiq::text::jinja {

void Heap::demand(size_t bytes) const {
  if (bytes > limit_ || live_ > limit_ - bytes)
    raise("the template builds values larger than allowed ({} bytes)", limit_);
}

void Heap::charge(size_t bytes) {
  demand(bytes);
  live_ += bytes;
}

void Heap::adopt(Object& object, size_t size) {
  const size_t cost = size + object.extra() + 16;  // 16: what the allocator adds
  charge(cost);
  object.cost_ = cost;
  object.heap_ = this;
  object.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &object;
  first_ = &object;
}

void Heap::unlink(Object& object) noexcept {
  if (object.previous_ != nullptr) object.previous_->next_ = object.next_;
  if (object.next_ != nullptr) object.next_->previous_ = object.previous_;
  if (first_ == &object) first_ = object.next_;
}

void Heap::dispose(Object& object) noexcept {
  unlink(object);
  object.next_ = dead_;
  dead_ = &object;
  if (draining_) return;  // the loop below, further up the stack, will come to it
  draining_ = true;
  while (dead_ != nullptr) {
    Object* victim = dead_;
    dead_ = victim->next_;
    live_ -= victim->cost_;
    delete victim;
  }
  draining_ = false;
}

Heap::~Heap() {
  for (Object* object = first_; object != nullptr; object = object->next_) ++object->count_;  // none dies early
  for (Object* object = first_; object != nullptr; object = object->next_) object->clear();
  while (first_ != nullptr) {
    Object* object = first_;
    first_ = object->next_;
    delete object;
  }
}

size_t StringObject::length() const noexcept {
  if (length_ == std::string::npos) {
    size_t count = 0;
    for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    length_ = count;
  }
  return length_;
}

}  // namespace cortiq::text::jinja
