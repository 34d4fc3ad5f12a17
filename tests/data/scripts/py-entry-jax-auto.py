import jax

jax.distributed.initialize()
if jax.process_index() == 0:
    print("devices:", jax.device_count())
