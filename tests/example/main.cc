// What a program that embeds the library looks like: convert, prove, ask.
#include <cortiq/cortiq.h>

#include <iostream>

int main(int count, char** values) {
  if (count != 3) {
    std::cerr << "usage: example CHECKPOINT OUTPUT.cmf\n";
    return 2;
  }
  try {
    cortiq::convert_checkpoint(values[1], values[2], "q8");
    if (!cortiq::verify(values[2]).valid) return 1;
    const cortiq::CmfFile file = cortiq::CmfFile::open(values[2]);
    std::cout << file.tensors().size() << " tensors, " << file.decode("model.norm.weight").size() << " norm weights\n";
    cortiq::LanguageModel model = cortiq::LanguageModel::load(values[2]);
    cortiq::GenerateOptions greedy;
    greedy.temperature = 0;
    const cortiq::Answer answer = model.chat({{"user", "What is the capital of France?"}}, greedy);
    std::cout << answer.text << "\n";
    return 0;
  } catch (const cortiq::Error& error) {
    std::cerr << "error: " << cortiq::name(error.kind()) << ": " << error.what() << "\n";
    return 1;
  }
}
