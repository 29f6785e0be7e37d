"""Write records and configurations of PPT-GPU traces."""


def config(**launches):
    """Return the text of app_config.py; a launch is (name, blocks, threads)."""
    text = ""
    for name, (kernel, blocks, threads) in launches.items():
        text += f'{name} = {{\n\n\t"kernel_name"\t\t\t: "{kernel}",\n\t"num_registers"\t\t\t: 18,\n'
        text += f'\t"shared_mem_bytes"\t\t: 96,\n\t"grid_size"\t\t\t: {blocks},\n\t"block_size"\t\t\t: {threads},\n'
        text += '\t"cuda_stream_id"\t\t: 0\n}\n\n'
    return text + f"app_kernels_id = [{', '.join(name[7:] for name in launches)}]"


def record(opcode="LDG.E.SYS", addresses=(4096, 4100)):
    return f"{opcode} " + "".join(f"{address:#x} " for address in addresses)
