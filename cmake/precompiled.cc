// Precompiled headers need a source; see SluiceCompiling.cmake.
