export RAY_ADDRESS=http://ray-head.internal:8265
ray job submit --address="http://ray-head.internal:8265" --working-dir ./src --no-wait \
  --runtime-env-json='{"env_vars": {"SEED": "1", "HF_TOKEN": "hf_abcdef"}, "pip": ["datasets==2.19.0"], "config": {"setup_timeout_seconds": 900}}' \
  --entrypoint-num-gpus 0.5 --entrypoint-resources '{"fast": 1}' --submission-id mine \
  -- python -m verl.trainer.main_ppo data.train_batch_size=256 'actor.name=a b'
