#pragma once
#include <string>
#include <vector>

#include "convert/names.h"

namespace cortiq::convert {

/// Appends what a source tensor becomes under its canonical name: itself, or the parts of a fused projection, of 3-D
/// experts, of a fused delta net (ENGINE_FACTS §6–§8).
void split_fused(const Source& source, const SourceTensor& tensor, const std::string& name, const cmf::Arch& arch,
                 const Layout& layout, std::vector<Mapped>& out);

/// True if both have the same shape and, decoded to f32, the same values. Reads both whole, piece by piece.
bool same_values(const Source& source_a, const SourceTensor& a, const Source& source_b, const SourceTensor& b);

}  // namespace cortiq::convert
