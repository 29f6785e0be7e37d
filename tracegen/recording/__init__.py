"""Record the kernel launches of unmodified CUDA programs without a GPU, and replay them as traces.

`tracegen.recording.recorder.record` runs a program with stand-ins for CUDA's libraries and writes a folder;
`tracegen.recording.replay.launches` makes traces from it.
"""
